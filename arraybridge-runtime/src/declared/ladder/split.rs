//! The call made for parts of the lead, and the results put together.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::{Ladder, Stop, release};
use crate::declared::arguments::{Slots, Watched, length_along};
use crate::declared::{Call, Failed, Mode};
use crate::framework::detect;
use crate::framework::oom;
use crate::interpreter::error::{Error, Result};
use crate::interpreter::tuples::{plain_tuple, rebuilt};
use crate::slices;

/// Halves the lead until its parts fit, down to one slice.
pub(super) fn split<'py>(
    ladder: &Ladder,
    call: &Call<'_, 'py>,
    slots: &Slots<'py>,
) -> Result<Bound<'py, PyAny>, Stop> {
    let Some(axis) = call.core.options.split_axis else {
        return Err(Stop::Skipped("the declaration has no split_axis".to_owned()));
    };
    let Some(lead) = slots.first() else {
        return Err(Stop::Skipped("there is no array to split".to_owned()));
    };
    let shape = lead.value.getattr(intern!(call.py, "shape"))?;
    if shape.len()? <= axis {
        return Err(Stop::Skipped(format!("the first array has no axis {axis}")));
    }
    let extent: usize = shape.get_item(axis)?.extract()?;
    if extent < 2 {
        return Err(Stop::Skipped(format!("the first array has {extent} slice along axis {axis}")));
    }
    call.check_sliced(slots, axis)?;
    ladder.clear(call.py);
    let (results, lengths, watched) = (Vec::new(), Vec::new(), Watched::default());
    let mut parts = Parts { ladder, call, slots, axis, results, lengths, watched };
    let halved = parts.halve(0, extent);
    let merged = halved.and_then(|()| Ok(merge(&parts.results, &parts.lengths, axis)?));
    merged.map_err(|failed| {
        // The parts before the one that failed may have been written to, each by its own call.
        let written = failed.written || parts.watched.is_written(call.core.options.input);
        Stop::Failed(Failed { written, ..failed })
    })
}

struct Parts<'a, 'b, 'py> {
    ladder: &'a Ladder,
    call: &'a Call<'b, 'py>,
    slots: &'a Slots<'py>,
    axis: usize,
    results: Vec<Bound<'py, PyAny>>,
    lengths: Vec<usize>,
    watched: Watched<'py>,
}

impl<'py> Parts<'_, '_, 'py> {
    fn halve(&mut self, start: usize, stop: usize) -> Result<(), Failed> {
        let middle = start + (stop - start) / 2;
        for (start, stop) in [(start, middle), (middle, stop)] {
            match self.attempt(start, stop) {
                Err(failed)
                    if stop - start > 1
                        && !failed.written
                        && oom::framework_of(self.call.py, &failed.error).is_some() =>
                {
                    release::references(self.call.py, &failed.error);
                    self.ladder.clear(self.call.py);
                    self.halve(start, stop)?;
                }
                done => done?,
            }
        }
        Ok(())
    }

    fn attempt(&mut self, start: usize, stop: usize) -> Result<(), Failed> {
        let axis = self.axis;
        let lead = slices::part(&self.slots[0].value, axis, start, stop)?;
        let part = |array: &Bound<'py, PyAny>| slices::part(array, axis, start, stop);
        let slots = self.call.with_parts(self.slots, lead, &part)?;
        let (result, watched) = self.call.attempt(&slots, &Mode::default())?;
        self.watched.extend(watched);
        self.results.push(result);
        self.lengths.push(stop - start);
        Ok(())
    }
}

/// One result of the results of the parts, whose lengths along the axis are given. An array of
/// another length was reduced or resampled along the axis, and would be wrong when put together.
fn merge<'py>(
    parts: &[Bound<'py, PyAny>],
    lengths: &[usize],
    axis: usize,
) -> Result<Bound<'py, PyAny>> {
    let Some(first) = parts.first() else {
        return Err(Error::Value("there is no part".to_owned()));
    };
    if detect::class_of(first).is_some() {
        for (part, wanted) in parts.iter().zip(lengths) {
            let length = length_along(part, axis);
            if length != Some(*wanted) {
                let length = length.map_or("no".to_owned(), |length| length.to_string());
                return Err(Error::Value(format!(
                    "a part of length {wanted} along axis {axis} gave a result of {length} length there"
                )));
            }
        }
        return slices::concatenate(parts, axis);
    }
    if first.is_exact_instance_of::<PyList>() || plain_tuple(first).is_some() {
        let length = first.len()?;
        for part in parts {
            if !part.get_type().is(first.get_type()) || part.len()? != length {
                return Err(Error::Value("the parts gave results of different forms".to_owned()));
            }
        }
        let mut elements = Vec::with_capacity(length);
        for index in 0..length {
            let column: Vec<_> =
                parts.iter().map(|p| p.get_item(index)).collect::<PyResult<_>>()?;
            elements.push(merge(&column, lengths, axis)?);
        }
        return Ok(rebuilt(first, elements)?);
    }
    for part in parts {
        // What cannot be compared is not known to be equal.
        if !part.is(first) && !part.eq(first).unwrap_or(false) {
            let class = first.get_type().name()?;
            let text = format!("the parts gave different values of type {class}");
            return Err(Error::Value(text));
        }
    }
    Ok(first.clone())
}
