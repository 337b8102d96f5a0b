//! The dtype of a stack whose slices are cast as they come.

use std::sync::atomic::Ordering;

use pyo3::prelude::*;

use super::{Conversion, DtypeCast, Function, Lead, Policy, is_unit, target_dtype};
use crate::convert;
use crate::framework::loaded::Loaded;
use crate::framework::spec::{DType, Kind};
use crate::host::cast::{CastReport, Scaling};
use crate::interpreter::error::Result;
use crate::memory::cast;
use crate::memory::source::Source;

/// The policy for a stack of results. Its slices are cast one by one, and the warnings are those of a cast
/// of the whole stack.
#[derive(Clone, Copy, Debug)]
pub struct StackPolicy<'a> {
    policy: Policy,
    lead: Lead,
    function: Function<'a>,
    lost: CastReport,
    /// How many integers were rounded to floats.
    rounded: u64,
    /// Whether the slices that lost fractions had all values in [0, 1].
    is_unit: bool,
}

impl<'a> StackPolicy<'a> {
    /// The policy for the results of a function.
    pub fn new(policy: Policy, lead: Lead, function: Function<'a>) -> StackPolicy<'a> {
        let lost = CastReport::default();
        StackPolicy { policy, lead, function, lost, rounded: 0, is_unit: true }
    }

    /// How floats become integers.
    pub fn scaling(&self) -> Scaling {
        self.policy.scaling
    }

    /// The dtype to which slices can be cast one by one; `None` if the whole stack has to be there first,
    /// or is not cast.
    ///
    /// # Errors
    ///
    /// What the framework raises when it is asked for its dtypes.
    pub fn dtype(&self, loaded: Loaded<'_>, from: DType, ndim: usize) -> Result<Option<DType>> {
        let Policy { conversion, scaling, .. } = self.policy;
        // The stretch depends on the values of all slices.
        if conversion == Conversion::NativeOutput || scaling == Scaling::Stretch {
            return Ok(None);
        }
        let Some(to) = target_dtype(|| Some(ndim), from, &self.lead, conversion) else {
            return Ok(None);
        };
        let loses_part = from.kind() == Kind::Complex && to.kind() != Kind::Complex;
        let is_there = convert::dtypes(loaded, to)?.contains(to);
        Ok((is_there && !loses_part).then_some(to))
    }

    /// Counts what the cast of a slice lost.
    ///
    /// # Errors
    ///
    /// As [`cast::rounded`].
    pub fn count(
        &mut self,
        py: Python<'_>,
        slice: &Source,
        to: DType,
        lost: CastReport,
    ) -> Result<()> {
        self.lost.clipped += lost.clipped;
        self.lost.fractions += lost.fractions;
        let will_warn = self.function.warned.is_some_and(|warned| !warned.load(Ordering::Relaxed));
        if lost.fractions > 0 && self.is_unit && will_warn && !self.policy.is_chosen {
            self.is_unit = is_unit(py, slice);
        }
        self.rounded += cast::rounded(py, slice, to)?;
        Ok(())
    }

    /// Warns of what the casts of all slices lost.
    ///
    /// # Errors
    ///
    /// The warning, if a filter makes it an exception.
    pub fn warn(&self, loaded: Loaded<'_>, from: DType, to: DType) -> Result<()> {
        let StackPolicy { policy, function, lost, rounded, is_unit, .. } = *self;
        let stack = DtypeCast { loaded, from, to, policy, function };
        if lost.clipped > 0 {
            stack.warn_of_clipping(lost.clipped)?;
        }
        if lost.fractions > 0 && !policy.is_chosen {
            stack.warn_of_fractions(lost.fractions, || is_unit)?;
        }
        if rounded > 0 {
            stack.warn_of_rounding(rounded)?;
        }
        Ok(())
    }
}
