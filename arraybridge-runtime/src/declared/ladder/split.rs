//! The rung that makes the call for parts of the first array, and joins the results.

use pyo3::intern;
use pyo3::prelude::*;

use super::join::join;
use super::{Ladder, RungFailure, release};
use crate::declared::arguments::{ArgumentSlots, ArrayVersions};
use crate::declared::call::{AttemptOptions, Call, FailedAttempt};
use crate::framework::oom;
use crate::slices;

/// Cuts the first array in two until the calls for its parts succeed, down to single slices.
pub(super) fn split<'py>(
    ladder: &Ladder,
    call: &Call<'_, 'py>,
    slots: &ArgumentSlots<'py>,
) -> Result<Bound<'py, PyAny>, RungFailure> {
    let Some(axis) = call.definition.options.split_axis else {
        return Err(RungFailure::Skipped("the declaration has no split_axis".to_owned()));
    };
    let Some(lead) = slots.first() else {
        return Err(RungFailure::Skipped("there is no array to split".to_owned()));
    };
    let shape = lead.value.getattr(intern!(call.py, "shape"))?;
    if shape.len()? <= axis {
        return Err(RungFailure::Skipped(format!("the first array has no axis {axis}")));
    }
    let extent: usize = shape.get_item(axis)?.extract()?;
    if extent < 2 {
        let why = format!("the length of the first array along axis {axis} is {extent}");
        return Err(RungFailure::Skipped(why));
    }
    call.check_sliced(slots, axis)?;
    ladder.clear_caches(call.py);
    let (results, lengths, versions) = (Vec::new(), Vec::new(), ArrayVersions::default());
    let mut parts = Parts { ladder, call, slots, axis, results, lengths, versions };
    let called = parts.cut(0, extent);
    let how = call.definition.options.join.as_ref();
    let joined = called.and_then(|()| Ok(join(how, &parts.results, &parts.lengths, axis)?));
    joined.map_err(|failed| {
        // The calls that succeeded may have written to their parts.
        let written = failed.written || parts.versions.any_changed(call.definition.options.input);
        RungFailure::Failed(FailedAttempt { written, ..failed })
    })
}

/// The parts for which the call has succeeded so far.
struct Parts<'a, 'b, 'py> {
    ladder: &'a Ladder,
    call: &'a Call<'b, 'py>,
    slots: &'a ArgumentSlots<'py>,
    axis: usize,
    results: Vec<Bound<'py, PyAny>>,
    lengths: Vec<usize>,
    versions: ArrayVersions<'py>,
}

impl<'py> Parts<'_, '_, 'py> {
    /// Calls the function for two parts of `start..stop`, and cuts a part again that does not fit into
    /// memory.
    fn cut(&mut self, start: usize, stop: usize) -> Result<(), FailedAttempt> {
        let middle = start + first_length(stop - start);
        for (start, stop) in [(start, middle), (middle, stop)] {
            match self.attempt(start, stop) {
                Err(failed)
                    if stop - start > 1
                        && !failed.written
                        && oom::framework_of(self.call.py, &failed.error).is_some() =>
                {
                    release::clear_frames(self.call.py, &failed.error)?;
                    self.ladder.clear_caches(self.call.py);
                    self.cut(start, stop)?;
                }
                attempted => attempted?,
            }
        }
        Ok(())
    }

    fn attempt(&mut self, start: usize, stop: usize) -> Result<(), FailedAttempt> {
        // A function without Python frames does not look for an interrupt.
        self.call.py.check_signals()?;
        let axis = self.axis;
        let lead = slices::part(&self.slots[0].value, axis, start, stop)?;
        let part = |array: &Bound<'py, PyAny>| slices::part(array, axis, start, stop);
        let slots = self.call.with_parts(self.slots, lead, &part)?;
        let (result, versions) = self.call.attempt(&slots, &AttemptOptions::default())?;
        self.versions.extend(versions);
        self.results.push(result);
        self.lengths.push(stop - start);
        Ok(())
    }
}

/// The length of the first of two parts. They differ in length wherever they can, by 1 or 2, so that
/// [`join`] sees which results follow their part.
fn first_length(extent: usize) -> usize {
    ((extent - 1) / 2).max(1)
}
