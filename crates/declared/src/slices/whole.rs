//! The array that results are copied to while they come.

use pyo3::prelude::*;

use super::fill::fill_place;
use super::join::{Joiner, allocate};
use crate::policy::{StackPolicy, Subclass};
use arraybridge_host::cast::{CastReport, Scaling};
use arraybridge_runtime::convert::record::Record;
use arraybridge_runtime::convert::{self, Commitment, Opened, trace};
use arraybridge_runtime::framework::device::Device;
use arraybridge_runtime::framework::loaded;
use arraybridge_runtime::framework::spec::DType;
use arraybridge_runtime::interpreter::error::Result;
use arraybridge_tensor::memory::source::Source;
use arraybridge_tensor::memory::view::{Dims, View};

/// An array in host memory, and what is known about the results that it is made of.
pub(super) struct Whole<'a, 'py> {
    pub join: Joiner<'py>,
    pub device: Device,
    commitment: Commitment<'py>,
    /// Its memory.
    pub opened: Opened,
    /// The dtype of the results.
    pub from: DType,
    policy: Option<StackPolicy<'a, 'py>>,
    /// The class of the results, if it is not the framework's own.
    pub subclass: Option<Subclass<'py>>,
}

impl<'a, 'py> Whole<'a, 'py> {
    /// Room for results like the first one, of this shape together.
    ///
    /// # Errors
    ///
    /// `MemoryError` when there is no room; [`Error::Conversion`](arraybridge_runtime::interpreter::error::Error) when
    /// the framework cannot have the array.
    ///
    /// # Safety
    ///
    /// The elements are written before the array is finished.
    pub unsafe fn new(
        join: Joiner<'py>,
        first: &Bound<'py, PyAny>,
        from: DType,
        shape: Dims<usize>,
        policy: Option<StackPolicy<'a, 'py>>,
    ) -> Result<Whole<'a, 'py>> {
        let py = join.loaded.py();
        let own = loaded::load(py, convert::class_of(first)?.framework)?;
        let device = join.device(own.device_of(first)?)?;
        let to = match &policy {
            Some(policy) => policy.dtype(join.loaded, from, &shape)?,
            None => None,
        };
        // SAFETY: the caller writes the elements.
        let source = unsafe { allocate(shape, to.unwrap_or(from))? };
        let opened = Opened { source, private: true };
        join.admit(&opened)?;
        let commitment = join.commitment(first)?;
        let subclass = Subclass::of(first);
        Ok(Whole { join, device, commitment, opened, from, policy, subclass })
    }

    pub fn dtype(&self) -> DType {
        self.opened.source.view().dtype()
    }

    /// Returns whether results of a dtype become what is here by the policy.
    pub fn is_made_of(&self, from: DType) -> Result<bool> {
        let (loaded, view) = (self.join.loaded, self.opened.source.view());
        let to = self.policy.map_or(Ok(None), |policy| policy.dtype(loaded, from, view.shape()))?;
        Ok(to.unwrap_or(from) == view.dtype())
    }

    /// The way in which the policy casts floats to integers.
    pub fn scaling(&self) -> Scaling {
        self.policy.map_or(Scaling::Clamp, |policy| policy.scaling())
    }

    /// Counts what the cast of a result lost, if the policy asks for it. `cast` finds the result in the array's dtype,
    /// which may be a part of the array.
    pub fn count(
        &mut self,
        result: &Source,
        cast: impl FnOnce(&View) -> View,
        lost: CastReport,
    ) -> Result<()> {
        let Some(policy) = &mut self.policy else { return Ok(()) };
        let view = self.opened.source.view();
        let elements = Some(view.len()).filter(|_| view.dtype() != self.from);
        policy.count(self.join.loaded.py(), (result, &cast(view)), lost, elements)
    }

    /// Looks at the class of a result.
    #[inline]
    pub fn meet(&mut self, result: &Bound<'py, PyAny>) -> Result<()> {
        self.subclass.as_mut().map_or(Ok(()), |subclass| subclass.meet(result))
    }

    /// Copies an array to a region, which has its dtype and its axes. The region begins at these positions along the
    /// axes.
    ///
    /// # Panics
    ///
    /// Panics if there is no such region.
    pub fn fill_region(&mut self, array: &Source, starts: &[usize]) -> Result<()> {
        let (whole, array) = (self.opened.source.view(), array.view());
        assert!(array.dtype() == whole.dtype() && array.ndim() == whole.ndim());
        let ranges = starts.iter().zip(array.shape()).map(|(start, len)| *start..start + len);
        let place = whole.region(ranges.enumerate());
        // SAFETY: both arrays are borrowed, and the place has the shape of the other. This array owns its memory and
        // is borrowed mutably, so that nobody else reads or writes it and it does not overlap the other.
        unsafe { fill_place(self.join.loaded.py(), &place, array, Scaling::Clamp) }.map(drop)
    }

    /// Writes an array to a row, cast to its dtype, and counts what was lost.
    ///
    /// # Panics
    ///
    /// Panics if there is no such row, or its shape is not that of the array.
    pub fn fill_row(&mut self, row: usize, array: &Source, scaling: Scaling) -> Result<CastReport> {
        let (place, array) = (self.opened.source.view().slice(row), array.view());
        assert!(place.shape() == array.shape());
        // SAFETY: both arrays are borrowed, and the place has the shape of the other. This array owns its memory and
        // is borrowed mutably, and arrays that a framework had of its rows are gone, so that nobody else reads or
        // writes it and it does not overlap the other.
        unsafe { fill_place(self.join.loaded.py(), &place, array, scaling) }
    }

    /// Sets the rows from `row` on to zero.
    pub fn clear_rows(&mut self, row: usize) {
        let view = self.opened.source.view();
        let rest = view.part(0, row, view.shape()[0]);
        // SAFETY: this array owns its contiguous memory and is borrowed mutably; the rest is inside of it.
        unsafe { rest.data().write_bytes(0, rest.nbytes()) };
    }

    /// The array, of which all elements are there.
    pub fn finish(self) -> Result<Bound<'py, PyAny>> {
        if let Some(policy) = &self.policy {
            policy.warn(self.join.loaded, self.from, self.dtype())?;
        }
        self.make()
    }

    /// The array.
    pub fn make(self) -> Result<Bound<'py, PyAny>> {
        let (start, to) = (trace::start(), self.dtype());
        let Whole { join, device, commitment, opened, from, subclass, .. } = self;
        let (loaded, py) = (join.loaded, join.loaded.py());
        let mut result = join.make_array(opened, device, &commitment)?;
        if let Some(subclass) = subclass {
            result = subclass.give(result)?;
        }
        if let Some(start) = start {
            trace::push(py, join.record(&result), start);
            if to != from {
                let record = Record::of_cast(loaded, &result, to, "dtype policy");
                trace::push(py, record, start);
            }
        }
        Ok(result)
    }
}
