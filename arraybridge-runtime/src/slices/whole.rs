//! The array that results are copied to while they come.

use pyo3::prelude::*;

use super::join::{Joiner, allocate};
use crate::convert::record::Record;
use crate::convert::{self, Commitment, Opened, trace};
use crate::framework::device::Device;
use crate::framework::loaded;
use crate::framework::spec::DType;
use crate::interpreter::error::Result;
use crate::memory::source::Source;
use crate::memory::view::Dims;
use crate::policy::StackPolicy;

/// An array in host memory, and what is known about the results that it is made of.
pub(super) struct Whole<'py> {
    pub join: Joiner<'py>,
    pub device: Device,
    commitment: Commitment<'py>,
    /// Its memory.
    pub opened: Opened,
    /// The dtype of the results.
    pub from: DType,
}

impl<'py> Whole<'py> {
    /// Room for results like the first one, of this shape together.
    ///
    /// # Errors
    ///
    /// `MemoryError` when there is no room; [`Error::Conversion`](crate::interpreter::error::Error) when
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
        policy: Option<&StackPolicy<'_, 'py>>,
    ) -> Result<Whole<'py>> {
        let py = join.loaded.py();
        let own = loaded::load(py, convert::class_of(first)?.framework)?;
        let device = join.device(own.device_of(first)?)?;
        let to = match policy {
            Some(policy) => policy.dtype(join.loaded, from, &shape)?,
            None => None,
        };
        // SAFETY: the caller writes the elements.
        let source = unsafe { allocate(shape, to.unwrap_or(from))? };
        let opened = Opened { source, private: true };
        join.admit(&opened)?;
        let commitment = join.commitment(first)?;
        Ok(Whole { join, device, commitment, opened, from })
    }

    pub fn dtype(&self) -> DType {
        self.opened.source.view().dtype()
    }

    pub fn memory(&mut self) -> &mut Source {
        &mut self.opened.source
    }

    /// The array.
    ///
    /// # Errors
    ///
    /// The errors of [`convert::make_array`].
    pub fn finish(self) -> Result<Bound<'py, PyAny>> {
        let (start, to) = (trace::start(), self.dtype());
        let Whole { join, device, commitment, opened, from } = self;
        let (loaded, py) = (join.loaded, join.loaded.py());
        let result = join.make_array(opened, device, &commitment)?;
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
