//! The rung that makes the call for parts of the first array, and joins the results.

use std::sync::atomic::Ordering;

use pyo3::intern;
use pyo3::prelude::*;

use super::gathered::Gathered;
use super::join::undeclared;
use super::{Ladder, RungFailure, release};
use crate::declared::arguments::{ArgumentSlots, ArrayVersions};
use crate::declared::call::{AttemptOptions, Call, FailedAttempt};
use crate::framework::oom;
use crate::interpreter::error::Error;
use crate::interpreter::progress::Progress;
use crate::slices;

/// Makes the call for parts of the first array, and halves them until the calls succeed, down to single
/// slices. The next call of the function begins with parts of the size that succeeded.
pub(super) fn split<'py>(
    ladder: &Ladder,
    call: &Call<'_, 'py>,
    slots: &ArgumentSlots<'py>,
) -> Result<Bound<'py, PyAny>, RungFailure> {
    let Lead { axis, extent, per_index } = Lead::of(call, slots)?;
    call.check_sliced(slots, axis)?;
    ladder.clear_caches(call.py);
    let how = call.definition.options.join.as_ref();
    let (results, lengths) = (Gathered::new(how, axis, extent), Vec::new());
    let versions = ArrayVersions::default();
    let mut parts = Parts { ladder, call, slots, axis, results, lengths, versions };
    let fitted = &call.definition.fitted;
    let known = match fitted.load(Ordering::Relaxed) {
        0 => extent,
        elements => elements / per_index,
    };
    let called = parts.cut(extent, known.clamp(1, half(extent)));
    let Parts { results, lengths, versions, .. } = parts;
    let joined = called.and_then(|longest| {
        fitted.store(longest * per_index, Ordering::Relaxed);
        if how.is_none() {
            check_lengths(&lengths)?;
        }
        Ok(results.joined()?)
    });
    joined.map_err(|failed| {
        // The calls that succeeded may have written to their parts.
        let written = failed.written || versions.any_changed(call.definition.options.input);
        RungFailure::Failed(FailedAttempt { written, ..failed })
    })
}

/// The array that is cut.
struct Lead {
    axis: usize,
    /// Its length along the axis.
    extent: usize,
    /// The number of elements for each position along the axis, at least 1.
    per_index: usize,
}

impl Lead {
    fn of(call: &Call<'_, '_>, slots: &ArgumentSlots<'_>) -> Result<Lead, RungFailure> {
        let skip = |why: &str| RungFailure::Skipped(why.to_owned());
        let axis = call.definition.options.split_axis;
        let axis = axis.ok_or_else(|| skip("the declaration has no split_axis"))?;
        let lead = slots.first().ok_or_else(|| skip("there is no array to split"))?;
        let shape = lead.value.getattr(intern!(call.py, "shape"))?;
        let shape: Vec<usize> = shape.try_iter()?.map(|n| n?.extract()).collect::<PyResult<_>>()?;
        let counted = if axis < 0 { axis + shape.len() as isize } else { axis };
        let Some(index) = usize::try_from(counted).ok().filter(|index| *index < shape.len()) else {
            return Err(skip(&format!("the first array has no axis {axis}")));
        };
        let extent = shape[index];
        if extent < 2 {
            let why = format!("the length of the first array along axis {axis} is {extent}");
            return Err(skip(&why));
        }
        let per_index = (shape.iter().product::<usize>() / extent).max(1);
        Ok(Lead { axis: index, extent, per_index })
    }
}

/// The parts for which the call has succeeded so far.
struct Parts<'a, 'b, 'py> {
    ladder: &'a Ladder,
    call: &'a Call<'b, 'py>,
    slots: &'a ArgumentSlots<'py>,
    axis: usize,
    results: Gathered<'b, 'py>,
    lengths: Vec<usize>,
    versions: ArrayVersions<'py>,
}

impl<'py> Parts<'_, '_, 'py> {
    /// Calls the function for all parts, which are at most `longest` long and are halved when one does not
    /// fit into memory. Returns how long they are at most in the end.
    fn cut(&mut self, extent: usize, mut longest: usize) -> Result<usize, FailedAttempt> {
        let (name, mut start) = (&self.call.definition.name, 0);
        let progress = Progress::start(self.call.py, name, extent, "element")?;
        while start < extent {
            let stop = start + self.next_length(extent - start, longest);
            match self.attempt(start, stop) {
                Err(failed)
                    if stop - start > 1
                        && !failed.written
                        && oom::framework_of(self.call.py, &failed.error, None).is_some() =>
                {
                    release::clear_frames(self.call.py, &failed.error)?;
                    // The garbage of this rung was collected at its beginning.
                    self.ladder.clear_pools(self.call.py);
                    longest = half(stop - start);
                }
                attempted => {
                    // No part is taken in twice, so what fails here is not tried again.
                    self.results.add(attempted?, stop - start)?;
                    self.lengths.push(stop - start);
                    progress.step(stop - start)?;
                    start = stop;
                }
            }
        }
        Ok(longest)
    }

    /// The length of the next part. The first one takes the remainder, or is shorter by 1, so that the
    /// parts differ in length wherever they can: it shows then which results follow their part.
    fn next_length(&self, rest: usize, longest: usize) -> usize {
        match rest % longest {
            0 if self.lengths.is_empty() => (longest - 1).max(1),
            0 => longest,
            remainder => remainder,
        }
    }

    fn attempt(&mut self, start: usize, stop: usize) -> Result<Bound<'py, PyAny>, FailedAttempt> {
        // A function without Python frames does not look for an interrupt.
        self.call.py.check_signals()?;
        let axis = self.axis;
        let lead = slices::part(&self.slots[0].value, axis, start, stop)?;
        let part = |array: &Bound<'py, PyAny>| slices::part(array, axis, start, stop);
        let slots = self.call.with_parts(self.slots, lead, &part)?;
        let (result, versions) = self.call.attempt(&slots, &AttemptOptions::default())?;
        self.versions.extend(versions);
        Ok(result)
    }
}

/// Checks that parts differ in length: a reduction has the same length for every part.
fn check_lengths(lengths: &[usize]) -> Result<(), Error> {
    match lengths {
        [length, others @ ..] if others.iter().all(|other| other == length) => {
            Err(undeclared(&format!("all parts have the length {length}, as a reduction could")))
        }
        _ => Ok(()),
    }
}

/// The length of the longer one of two parts. They differ in length if they can.
fn half(extent: usize) -> usize {
    extent - ((extent - 1) / 2).max(1)
}
