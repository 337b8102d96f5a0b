//! The dtype of a stack whose slices are cast as they come.

use pyo3::prelude::*;

use super::{Conversion, DtypeCast, Lead, Policy, Rounding, Shape};
use arraybridge_host::cast::{CastReport, Scaling};
use arraybridge_runtime::convert;
use arraybridge_runtime::framework::loaded::Loaded;
use arraybridge_runtime::framework::spec::{DType, Kind};
use arraybridge_runtime::interpreter::error::Result;
use arraybridge_runtime::memory::cast;
use arraybridge_tensor::memory::source::Source;
use arraybridge_tensor::memory::view::View;

/// The policy for a stack of results. Its slices are cast one by one, and the warnings are those of a cast
/// of the whole stack.
#[derive(Clone, Copy, Debug)]
pub struct StackPolicy<'a, 'py> {
    policy: Policy,
    lead: Lead<'a, 'py>,
    function: &'a str,
    lost: CastReport,
    /// The number of integers that were rounded to floats.
    rounded: u64,
    /// The known facts about floats that become integers by default.
    rounding: Option<Rounding>,
}

impl<'a, 'py> StackPolicy<'a, 'py> {
    /// The policy for the results of a function.
    pub fn new(policy: Policy, lead: Lead<'a, 'py>, function: &'a str) -> StackPolicy<'a, 'py> {
        let lost = CastReport::default();
        StackPolicy { policy, lead, function, lost, rounded: 0, rounding: None }
    }

    /// The way in which floats become integers.
    pub fn scaling(&self) -> Scaling {
        self.policy.scaling
    }

    /// The dtype to which slices of a whole of this shape can be cast one by one; `None` if the whole stack has to be there first,
    /// or is not cast.
    pub fn dtype(
        &self,
        loaded: Loaded<'py>,
        from: DType,
        shape: &[usize],
    ) -> Result<Option<DType>> {
        let Policy { conversion, scaling, range, .. } = self.policy;
        // The stretch depends on the values of all slices, and a range is for whole arrays.
        let waits = scaling == Scaling::Stretch || range.is_some();
        if conversion == Conversion::NativeOutput || waits {
            return Ok(None);
        }
        let Some(to) = self.lead.target_dtype(Shape::Known(shape), from, conversion) else {
            return Ok(None);
        };
        let loses_part = from.kind() == Kind::Complex && to.kind() != Kind::Complex;
        let is_there = convert::dtypes(loaded, to)?.contains(to);
        Ok((is_there && !loses_part).then_some(to))
    }

    /// Counts what the cast of a slice lost. The whole has so many elements, if it is cast.
    pub fn count(
        &mut self,
        py: Python<'_>,
        (slice, cast): (&Source, &View),
        lost: CastReport,
        elements: Option<usize>,
    ) -> Result<()> {
        let to = cast.dtype();
        self.lost.clipped += lost.clipped;
        self.lost.fractions += lost.fractions;
        let Policy { conversion, scaling, .. } = self.policy;
        let rounds = conversion == Conversion::Default && scaling == Scaling::Clamp;
        // Wider integers are exact.
        let rounds = rounds && !to.is_inexact() && to.size() <= 2;
        if let Some(elements) = elements.filter(|_| rounds) {
            let rounding = self.rounding.get_or_insert_with(|| Rounding::of(elements));
            rounding.add(py, (slice, cast), lost)?;
        }
        self.rounded += cast::rounded(py, slice, to)?;
        Ok(())
    }

    /// Warns of what the casts of all slices lost.
    ///
    /// # Errors
    ///
    /// The errors of [`finish`](super::finish), for the whole.
    pub fn warn(&self, loaded: Loaded<'py>, from: DType, to: DType) -> Result<()> {
        let StackPolicy { policy, lead, function, lost, rounded, rounding } = *self;
        let whole = DtypeCast { loaded, from, to, policy, lead, function };
        if let Some(rounding) = &rounding {
            whole.check(rounding)?;
        }
        whole.warn(lost, rounded)
    }
}
