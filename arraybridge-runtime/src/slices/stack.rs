//! Stacks, and the visit of their slices.

use pyo3::prelude::*;

use super::check::{length_along, slice_count};
use super::unstack::Slices;
use crate::framework::shape;
use crate::interpreter::error::Result;
use crate::memory::view::Dims;

/// Takes a slice, and its index along each leading axis.
pub type VisitSlice<'a, 'py> = dyn FnMut(&[usize], Bound<'py, PyAny>) -> Result<()> + 'a;

/// The slices of a stack: one for each position along its leading axes.
pub trait Stack<'py> {
    /// Whose interpreter it is.
    fn py(&self) -> Python<'py>;

    /// The lengths of the leading axes.
    fn lengths(&self) -> &[usize];

    /// The shape of a slice; `None` if a trace does not know it.
    fn slice_shape(&self) -> Option<Dims<usize>>;

    /// Visits all slices in C order.
    ///
    /// # Errors
    ///
    /// Any exception that reading a slice raises, and what the visit returns.
    fn each(&self, visit: &mut VisitSlice<'_, 'py>) -> Result<()>;
}

/// An array whose first axes count slices.
pub struct Leading<'a, 'py> {
    array: &'a Bound<'py, PyAny>,
    lengths: Dims<usize>,
}

impl<'a, 'py> Leading<'a, 'py> {
    /// The slices along so many leading axes.
    ///
    /// # Errors
    ///
    /// The errors of [`length_along`].
    pub fn new(array: &'a Bound<'py, PyAny>, leading: usize) -> Result<Leading<'a, 'py>> {
        let length = |axis| length_along(array, axis);
        Ok(Leading { array, lengths: (0..leading).map(length).collect::<Result<_>>()? })
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
                false => Leading::visit(&part?, rest, index, visit)?,
            }
            index.pop();
        }
        Ok(())
    }
}

impl<'py> Stack<'py> for Leading<'_, 'py> {
    fn py(&self) -> Python<'py> {
        self.array.py()
    }

    fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    fn slice_shape(&self) -> Option<Dims<usize>> {
        shape::of(self.array).map(|shape| shape[self.lengths.len()..].into())
    }

    fn each(&self, visit: &mut VisitSlice<'_, 'py>) -> Result<()> {
        Leading::visit(self.array, &self.lengths, &mut Dims::new(), visit)
    }
}

/// The number of leading axes of a stack of 2-D slices.
///
/// # Errors
///
/// [`Error::Value`](crate::interpreter::error::Error) when the array has fewer than three axes.
pub fn leading_axes(array: &Bound<'_, PyAny>) -> Result<usize> {
    match shape::ndim(array) {
        Some(axes) if axes > 3 => Ok(axes - 2),
        _ => slice_count(array).map(|_| 1),
    }
}
