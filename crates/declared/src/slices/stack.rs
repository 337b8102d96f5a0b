//! Stacks, and the visit of their slices.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::check::{length_along, slice_count};
use super::layout::Layout;
use super::lazy;
use super::unstack::Slices;
use arraybridge_runtime::framework::shape;
use arraybridge_runtime::interpreter::error::Result;
use arraybridge_tensor::memory::view::Dims;

/// Takes a slice, and its index along each leading axis.
pub type VisitSlice<'a, 'py> = dyn FnMut(&[usize], Bound<'py, PyAny>) -> Result<()> + 'a;

/// The slices of an array: one for each position along its leading axes.
pub struct Stack<'a, 'py> {
    array: &'a Bound<'py, PyAny>,
    /// The axes that count slices. In memory they are the first ones by now.
    layout: &'a Layout,
    lengths: Dims<usize>,
    slice: Option<Dims<usize>>,
    /// True if the array is read slice by slice.
    is_lazy: bool,
}

impl<'a, 'py> Stack<'a, 'py> {
    /// The slices of an array in memory, whose first axes count them.
    pub fn leading(array: &'a Bound<'py, PyAny>, layout: &'a Layout) -> Result<Stack<'a, 'py>> {
        let leading = layout.leading.len();
        let length = |axis| length_along(array, axis);
        let lengths = (0..leading).map(length).collect::<Result<_>>()?;
        let slice = shape::of(array).map(|shape| shape[leading..].into());
        Ok(Stack { array, layout, lengths, slice, is_lazy: false })
    }

    /// The slices of an object that is read one by one. The shape has the axes that count slices first.
    pub fn lazy(
        lazy: &'a Bound<'py, PyAny>,
        layout: &'a Layout,
        shape: &[usize],
    ) -> Stack<'a, 'py> {
        let (lengths, slice) = shape.split_at(layout.leading.len());
        let (lengths, slice) = (lengths.into(), Some(slice.into()));
        Stack { array: lazy, layout, lengths, slice, is_lazy: true }
    }

    /// Whose interpreter it is.
    pub fn py(&self) -> Python<'py> {
        self.array.py()
    }

    /// The axes that count slices, and those of a slice.
    pub fn layout(&self) -> &Layout {
        self.layout
    }

    /// The lengths of the leading axes.
    pub fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// The shape of a slice; `None` if a trace does not know it.
    pub fn slice_shape(&self) -> Option<Dims<usize>> {
        self.slice.clone()
    }

    /// Visits all slices in C order.
    pub fn each(&self, visit: &mut VisitSlice<'_, 'py>) -> Result<()> {
        match self.is_lazy {
            true => self.read_each(visit),
            false => Stack::visit(self.array, &self.lengths, &mut Dims::new(), visit),
        }
    }

    fn read_each(&self, visit: &mut VisitSlice<'_, 'py>) -> Result<()> {
        let layout = self.layout;
        for flat in 0..self.lengths.iter().product() {
            // A function without Python frames does not look for an interrupt.
            self.py().check_signals()?;
            let mut rest: usize = flat;
            let mut position = self.lengths.clone();
            for (at, length) in position.iter_mut().zip(&self.lengths).rev() {
                (*at, rest) = (rest % length, rest / length);
            }
            let index = PyTuple::new(self.py(), layout.index(self.py(), &position, layout.axes))?;
            visit(&position, lazy::read(self.array, index.as_any())?)?;
        }
        Ok(())
    }

    fn visit(
        array: &Bound<'py, PyAny>,
        lengths: &[usize],
        index: &mut Dims<usize>,
        visit: &mut VisitSlice<'_, 'py>,
    ) -> Result<()> {
        let Some((length, rest)) = lengths.split_first() else {
            return visit(index, array.clone());
        };
        for (position, part) in Slices::new(array.clone(), *length)?.enumerate() {
            index.push(position);
            match rest.is_empty() {
                // Nobody else keeps the slice.
                true => visit(index, part?)?,
                false => Stack::visit(&part?, rest, index, visit)?,
            }
            index.pop();
        }
        Ok(())
    }
}

/// The number of leading axes of a stack of 2-D slices.
///
/// # Errors
///
/// [`Error::Value`](arraybridge_runtime::interpreter::error::Error) when the array has fewer than three axes.
pub fn leading_axes(array: &Bound<'_, PyAny>) -> Result<usize> {
    match shape::ndim(array) {
        Some(axes) if axes > 3 => Ok(axes - 2),
        _ => slice_count(array).map(|_| 1),
    }
}
