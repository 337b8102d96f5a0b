//! The rung that makes the call for parts of the first array, and joins the results.

use pyo3::exceptions::PyWarning;
use pyo3::prelude::*;
use pyo3::types::{PySet, PyTuple};

use super::gathered::Gathered;
use super::join::undeclared;
use super::room::CallRoom;
use super::{RungFailure, release};
use crate::declared::arguments::{ArgumentSlot, ArgumentSlots, Writes};
use crate::declared::call::{AttemptOptions, Call, FailedAttempt};
use crate::declared::result::{self, ResultScope};
use crate::slices;
use arraybridge_runtime::framework::cleanup;
use arraybridge_runtime::framework::oom;
use arraybridge_runtime::framework::{loaded, shape};
use arraybridge_runtime::interpreter::error::{Error, attempt};
use arraybridge_runtime::interpreter::progress::Progress;

/// The first parts of a lead are not made shorter than this for the sake of speed, in elements: the work on so
/// many takes far longer than a call.
const LARGE: usize = 1 << 23;

/// The number of parts that a large lead has at first. A part may run out of memory only after most
/// of its time, and the peak is what a part allocates, so that halving from the top would cost
/// both.
const FIRST_PARTS: usize = 16;

/// Notes that the call succeeded for the whole, if one like it had to be split.
#[cold]
pub fn note_whole<'py>(call: &Call<'_, 'py>, slots: &ArgumentSlots<'py>) {
    if let Ok(lead) = CutLead::of(call, slots)
        && let Some(compared) = lead.compared(call, slots)
    {
        compared.note_whole(lead.extent);
    }
}

/// Returns whether a call should begin with parts, since one like it with a lead as long as this
/// had to be split.
pub(super) fn begins<'py>(call: &Call<'_, 'py>, slots: &ArgumentSlots<'py>) -> bool {
    CutLead::of(call, slots).is_ok_and(|lead| {
        let compared = lead.compared(call, slots);
        compared.is_some_and(|compared| compared.begins_with_parts(lead.extent))
    })
}

/// Makes the call for parts of the first array, and halves them until the calls succeed, down to single
/// slices. The first parts are as long as those that succeeded in an earlier call like this one, or else as of
/// [`CutLead::first_part`]. `accelerator` is that of the call. In the scope of a call, what the parts
/// give gets the dtype of the result as it comes.
pub(super) fn split<'py>(
    accelerator: Option<usize>,
    call: &Call<'_, 'py>,
    slots: &ArgumentSlots<'py>,
    scope: ResultScope,
) -> Result<Bound<'py, PyAny>, RungFailure> {
    let lead = CutLead::of(call, slots)?;
    let CutLead { axis, extent, .. } = lead;
    call.check_sliced(slots, axis)?;
    let how = call.definition.options.join.as_ref();
    let policy = (scope == ResultScope::Call).then(|| result::joined_policy(call, scope));
    let (results, lengths) = (Gathered::new(how, axis, extent, policy), Vec::new());
    let writes = Writes::of(call.definition.options.input);
    let mut parts = SplitCall { accelerator, call, slots, axis, results, lengths, writes };
    let compared = lead.compared(call, slots);
    let longest = match compared.as_ref().and_then(CallRoom::part) {
        Some(part) => part.min(half(extent)),
        None => lead.first_part(),
    };
    let called = parts.cut(extent, longest);
    let SplitCall { results, lengths, writes, .. } = parts;
    let failure = |failed: FailedAttempt| {
        // The calls that succeeded may have written to their parts.
        let obstacle = failed.obstacle.or_else(|| writes.obstacle(call.py));
        RungFailure::Failed(FailedAttempt { obstacle, ..failed })
    };
    let longest = called.map_err(failure)?;
    if how.is_none() {
        check_lengths(&lengths).map_err(|error| failure(error.into()))?;
    }
    let joined = results.joined().map_err(|error| {
        let is_collapsed = error.is_collapsed();
        let error = PyErr::from(error);
        match is_collapsed || error.is_instance_of::<PyWarning>(call.py) {
            true => RungFailure::Refused(error),
            false => failure(error.into()),
        }
    })?;
    if let Some(compared) = compared {
        compared.note_split(extent, longest);
    }
    Ok(joined)
}

/// The array that is cut.
#[derive(Clone, Copy)]
struct CutLead {
    axis: usize,
    /// Its length along the axis.
    extent: usize,
    /// The number of elements for each position along the axis, at least 1.
    per_index: usize,
}

impl CutLead {
    /// The call in comparison with those that had to be split; `None` if it cannot be compared.
    fn compared<'a, 'py>(
        self,
        call: &'a Call<'_, 'py>,
        slots: &ArgumentSlots<'py>,
    ) -> Option<CallRoom<'a, 'py>> {
        let py = call.py;
        let (mut arrays, mut places) = (Vec::new(), Vec::new());
        for (index, slot) in slots.iter().enumerate() {
            let mut shape = shape::of(&slot.value)?;
            if index == 0 || call.is_sliced(slot) {
                *shape.get_mut(self.axis)? = 0;
            }
            let loaded = attempt(py, loaded::load(py, slot.class.framework))?;
            let dtype = attempt(py, loaded.stated_dtype(&slot.value))?;
            arrays.push((PyTuple::new(py, shape).ok()?, slot.value.get_type(), dtype));
            places.push(attempt(py, slot.place(py))?);
        }
        let places = attempt(py, PySet::new(py, places))?;
        call.definition.room.compare(py, (arrays, places, &call.args, &call.kwargs))
    }

    /// The greatest length of a part of a lead about which nothing is known: half of the lead or,
    /// if it is large, a 16th that is still large.
    fn first_part(self) -> usize {
        let large = LARGE.div_ceil(self.per_index);
        half(self.extent).min(self.extent.div_ceil(FIRST_PARTS).max(large))
    }

    fn of(call: &Call<'_, '_>, slots: &ArgumentSlots<'_>) -> Result<CutLead, RungFailure> {
        let skip = |why: &str| RungFailure::Skipped(why.to_owned());
        let axis = call.definition.options.split_axis;
        let axis = axis.ok_or_else(|| skip("the declaration has no split_axis"))?;
        let lead = slots.first().ok_or_else(|| skip("there is no array to split"))?;
        let shape = shape::read(&lead.value)?;
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
        Ok(CutLead { axis: index, extent, per_index })
    }
}

/// The parts for which the call has succeeded so far.
struct SplitCall<'a, 'b, 'py> {
    accelerator: Option<usize>,
    call: &'a Call<'b, 'py>,
    slots: &'a ArgumentSlots<'py>,
    axis: usize,
    results: Gathered<'b, 'py>,
    lengths: Vec<usize>,
    writes: Writes,
}

impl<'py> SplitCall<'_, '_, 'py> {
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
                        && failed.obstacle.is_none()
                        && oom::framework_of(self.call.py, &failed.error, None).is_some() =>
                {
                    release::clear_frames(self.call.py, &failed.error)?;
                    // The ladder has looked for garbage, or does so if no part fits. If one framework cannot
                    // clear its pools, the others have still made room.
                    let _ = cleanup::clear_pools(self.call.py, self.accelerator);
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
        let range = [(self.axis, start..stop)];
        let lead = slices::region(&self.slots[0].value, &range)?;
        let part = |slot: &ArgumentSlot<'py>| slices::region(&slot.value, &range);
        let slots = self.call.with_parts(self.slots, lead, &part)?;
        let (result, writes) = self.call.attempt(&slots, &AttemptOptions::default())?;
        self.writes.extend(writes);
        Ok(result)
    }
}

/// Checks that parts differ in length: a reduction has the same length for every part.
fn check_lengths(lengths: &[usize]) -> Result<(), Error> {
    match lengths {
        [length, others @ ..] if others.iter().all(|other| other == length) => {
            Err(undeclared(&format!(
                "all parts have the length {length}, so that the results could be slices or reductions"
            )))
        }
        _ => Ok(()),
    }
}

/// The length of the longer one of two parts. They differ in length if they can.
fn half(extent: usize) -> usize {
    extent - ((extent - 1) / 2).max(1)
}
