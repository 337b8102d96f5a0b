//! An array that is filled while its parts come, one after the other along an axis.

use pyo3::prelude::*;

use super::grid::Span;
use super::mosaic::Mosaic;
use super::shape::shape_of;
use crate::interpreter::error::Result;

/// A concatenation, in host memory, of the parts that have come so far.
pub struct Growing<'py> {
    mosaic: Mosaic<'static, 'py>,
    axis: usize,
    extent: usize,
    /// The length along the axis of what is there.
    filled: usize,
}

impl<'py> Growing<'py> {
    /// Room for parts like the first one, which is not copied yet. Along the axis, they are `extent` long
    /// together. `None` if they have to be kept.
    ///
    /// # Errors
    ///
    /// As [`Mosaic::new`].
    pub fn new(
        first: &Bound<'py, PyAny>,
        axis: usize,
        extent: usize,
    ) -> Result<Option<Growing<'py>>> {
        let mosaic = Mosaic::new(first, &[(axis, extent)], None)?;
        Ok(mosaic.map(|mosaic| Growing { mosaic, axis, extent, filled: 0 }))
    }

    /// Copies a part to its place; false if it is not like the first one, or there is no room.
    ///
    /// # Errors
    ///
    /// As [`Mosaic::place`].
    pub fn push(&mut self, part: &Bound<'py, PyAny>) -> Result<bool> {
        let length = shape_of(part).and_then(|shape| shape.get(self.axis).copied());
        let Some(length) = length.filter(|length| self.filled + length <= self.extent) else {
            return Ok(false);
        };
        let range = self.filled..self.filled + length;
        let span = Span { axis: self.axis, read: range.clone(), kept: range };
        let is_placed = self.mosaic.place(part, &[span])?;
        self.filled += if is_placed { length } else { 0 };
        Ok(is_placed)
    }

    /// The length along the axis of the parts that are there.
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// The array of the parts that are there, which may not be all.
    ///
    /// # Errors
    ///
    /// As [`Mosaic::finish`].
    pub fn array(self) -> Result<Bound<'py, PyAny>> {
        let is_partial = self.filled < self.extent;
        self.mosaic.finish_region(is_partial.then_some((self.axis, self.filled)))
    }
}
