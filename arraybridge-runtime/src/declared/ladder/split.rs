//! The rung that makes the call for parts of the first array, and merges the results.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::{Ladder, RungFailure, release};
use crate::declared::arguments::{ArgumentSlots, ArrayVersions, length_along};
use crate::declared::call::{AttemptOptions, Call, FailedAttempt};
use crate::framework::detect;
use crate::framework::oom;
use crate::interpreter::error::{Error, Result};
use crate::interpreter::tuples::{plain_tuple, rebuilt};
use crate::slices;

/// Halves the first array until the calls for its parts succeed, down to single slices.
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
    let halved = parts.halve(0, extent);
    let merged = halved.and_then(|()| Ok(merge(&parts.results, &parts.lengths, axis)?));
    merged.map_err(|failed| {
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
    /// Calls the function for both halves of `start..stop`, and halves a part again that does not fit
    /// into memory.
    fn halve(&mut self, start: usize, stop: usize) -> Result<(), FailedAttempt> {
        let middle = start + (stop - start) / 2;
        for (start, stop) in [(start, middle), (middle, stop)] {
            match self.attempt(start, stop) {
                Err(failed)
                    if stop - start > 1
                        && !failed.written
                        && oom::framework_of(self.call.py, &failed.error).is_some() =>
                {
                    release::clear_frames(self.call.py, &failed.error);
                    self.ladder.clear_caches(self.call.py);
                    self.halve(start, stop)?;
                }
                attempted => attempted?,
            }
        }
        Ok(())
    }

    fn attempt(&mut self, start: usize, stop: usize) -> Result<(), FailedAttempt> {
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

/// Merges the results of the parts, whose lengths along the axis are given.
fn merge<'py>(
    results: &[Bound<'py, PyAny>],
    lengths: &[usize],
    axis: usize,
) -> Result<Bound<'py, PyAny>> {
    let Some(first) = results.first() else {
        return Err(Error::Value("there are no parts".to_owned()));
    };
    if detect::class_of(first).is_some() {
        check_lengths(results, lengths, axis)?;
        return slices::concatenate(results, axis);
    }
    if first.is_exact_instance_of::<PyList>() || plain_tuple(first).is_some() {
        return merge_elements(results, lengths, axis);
    }
    for result in results {
        // Values that cannot be compared are not known to be equal.
        if !result.is(first) && !result.eq(first).unwrap_or(false) {
            let class = first.get_type().name()?;
            let text = format!("the parts returned different values of type {class}");
            return Err(Error::Value(text));
        }
    }
    Ok(first.clone())
}

/// Checks that each array is as long as its part. One that is not was reduced or resampled along the
/// axis, and the concatenated result would be wrong.
fn check_lengths(results: &[Bound<'_, PyAny>], lengths: &[usize], axis: usize) -> Result<()> {
    for (result, wanted) in results.iter().zip(lengths) {
        let length = length_along(result, axis);
        if length != Some(*wanted) {
            let length = length.map_or("unknown".to_owned(), |length| length.to_string());
            return Err(Error::Value(format!(
                "along axis {axis}, the length of a part is {wanted} and that of its result is {length}"
            )));
        }
    }
    Ok(())
}

/// Merges lists or tuples element by element.
fn merge_elements<'py>(
    results: &[Bound<'py, PyAny>],
    lengths: &[usize],
    axis: usize,
) -> Result<Bound<'py, PyAny>> {
    let first = &results[0];
    let length = first.len()?;
    for result in results {
        if !result.get_type().is(first.get_type()) || result.len()? != length {
            return Err(Error::Value("the parts returned different structures".to_owned()));
        }
    }
    let mut elements = Vec::with_capacity(length);
    for index in 0..length {
        let column = results.iter().map(|result| result.get_item(index));
        elements.push(merge(&column.collect::<PyResult<Vec<_>>>()?, lengths, axis)?);
    }
    Ok(rebuilt(first, elements)?)
}
