//! An array that is filled while its parts come, one after the other along an axis.

use pyo3::prelude::*;

use super::grid::Span;
use super::mosaic::Mosaic;
use crate::framework::shape;
use crate::interpreter::error::Result;
use crate::policy::StackPolicy;

/// A concatenation, in host memory, of the parts that have come so far.
pub struct Growing<'a, 'py> {
    mosaic: Mosaic<'a, 'py>,
    axis: usize,
    extent: usize,
    /// The length along the axis of what is there.
    filled: usize,
}

impl<'a, 'py> Growing<'a, 'py> {
    /// Room for parts like the first one, which is not copied yet. Along the axis, they are `extent` long
    /// together. `None` if they have to be kept.
    ///
    /// # Errors
    ///
    /// The errors of [`Mosaic::new`].
    pub fn new(
        first: &Bound<'py, PyAny>,
        axis: usize,
        extent: usize,
        policy: Option<StackPolicy<'a, 'py>>,
    ) -> Result<Option<Growing<'a, 'py>>> {
        let mosaic = Mosaic::new(first, &[(axis, extent)], policy)?;
        Ok(mosaic.map(|mosaic| Growing { mosaic, axis, extent, filled: 0 }))
    }

    /// Copies a part to its place; false if it is not like the first one, and the policy does not make it so, or if
    /// there is no room.
    ///
    /// # Errors
    ///
    /// The errors of [`Mosaic::place`], and any exception that the framework raises when it is
    /// asked for its dtypes.
    pub fn push(&mut self, part: &Bound<'py, PyAny>) -> Result<bool> {
        let length = shape::of(part).and_then(|shape| shape.get(self.axis).copied());
        let Some(length) = length.filter(|length| self.filled + length <= self.extent) else {
            return Ok(false);
        };
        let range = self.filled..self.filled + length;
        let span = Span::plain(self.axis, range);
        let is_placed = self.mosaic.place_cast(part, &[span])?;
        self.filled += if is_placed { length } else { 0 };
        Ok(is_placed)
    }

    /// Returns whether the policy has cast what is there.
    pub fn is_cast(&self) -> bool {
        self.mosaic.is_cast()
    }

    /// The length along the axis of the parts that are there.
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// The array of the parts that are there, which may not be all.
    ///
    /// # Errors
    ///
    /// The errors of [`Mosaic::finish`].
    pub fn array(self) -> Result<Bound<'py, PyAny>> {
        let is_partial = self.filled < self.extent;
        self.mosaic.finish_region(is_partial.then_some((self.axis, self.filled)))
    }
}
