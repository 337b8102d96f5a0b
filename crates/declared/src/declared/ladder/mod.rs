//! Retries of a call whose framework ran out of memory, rung by rung.
//!
//! First the caches of every framework are cleared, twice at most, then the call is made part by part,
//! then on the host. Where there is only the host, the second clear comes after the parts. If every rung fails, the error of the first attempt is raised, with notes on what was tried.

mod gathered;
mod host;
mod join;
mod release;
mod room;
mod rung;
mod split;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyIterator;

use super::arguments::{self, ArgumentSlots, Writes};
use super::call::{AttemptOptions, Call, FailedAttempt};
use super::definition::Definition;
use super::options::Options;
use super::result::ResultScope;
use super::scope::call_device;
use arraybridge_runtime::convert::record::Record;
use arraybridge_runtime::convert::trace;
use arraybridge_runtime::framework::cleanup;
use arraybridge_runtime::framework::detect;
use arraybridge_runtime::framework::device::Device;
use arraybridge_runtime::framework::oom;
use arraybridge_runtime::framework::spec::{Framework, Memory};
use arraybridge_runtime::interpreter::error::{Result, add_note, attempt, first_line, warn};
use arraybridge_runtime::interpreter::interrupt::is_interrupt;
use arraybridge_runtime::interpreter::park;

pub(super) use host::host_scope;
pub use join::Join;
pub(super) use join::{elements, parts, undeclared_tiles};
pub use room::Room;
pub use rung::Rung;
use split::note_whole;

/// The time that the second clear waits for memory that another process gives back.
const WAIT: Duration = Duration::from_millis(200);

/// The rungs that are climbed for those of a declaration.
///
/// Other processes use an accelerator's memory, and give it back. Memory of the host that is refused is mostly beyond
/// a limit of this process, so that a framework which has no other does not wait before a call is split.
fn expanded(options: &Options) -> Vec<Rung> {
    let expand = |rung: &Rung| match rung {
        Rung::Clear => [Some(Rung::Clear), Some(Rung::ClearAgain)],
        rung => [Some(*rung), None],
    };
    let mut rungs: Vec<_> = options.ladder.iter().flat_map(expand).flatten().collect();
    if options.execution.memory == Memory::Host && options.split_axis.is_some() {
        let place = |rung| rungs.iter().position(|found| *found == rung);
        if let (Some(wait), Some(split)) = (place(Rung::ClearAgain), place(Rung::Split))
            && wait < split
        {
            rungs[wait..=split].rotate_left(1);
        }
    }
    rungs
}

/// The reason why a rung gave no result.
pub enum RungFailure {
    /// It does not apply to the call, for this reason.
    Skipped(String),
    /// The attempt failed.
    Failed(FailedAttempt),
    /// There was a result, but its policy refuses it, or a filter makes a warning about it an exception.
    Refused(PyErr),
}

impl<E: Into<FailedAttempt>> From<E> for RungFailure {
    fn from(error: E) -> RungFailure {
        RungFailure::Failed(error.into())
    }
}

impl RungFailure {
    fn text(&self, py: Python<'_>) -> String {
        match self {
            RungFailure::Skipped(why) => format!("skipped: {why}"),
            RungFailure::Failed(failed) => first_line(py, &failed.error),
            RungFailure::Refused(error) => first_line(py, error),
        }
    }

    /// The text, unless memory ran out again.
    fn other_reason(&self, py: Python<'_>) -> Option<String> {
        match self {
            RungFailure::Failed(FailedAttempt { error, .. })
                if oom::framework_of(py, error, None).is_some() =>
            {
                None
            }
            _ => Some(self.text(py)),
        }
    }
}

/// The number of ladders that a thread may be on at a time. A function may declare another one in
/// each of its calls, which nobody knows from an earlier attempt.
const MOST_LADDERS: usize = 3;

/// The ladders that a thread is on.
struct Climbs {
    ladders: usize,
    /// The functions that are on one, or have been on one in vain since the first of these ladders was begun.
    functions: Vec<usize>,
}

thread_local! {
    static CLIMBS: RefCell<Climbs> =
        const { RefCell::new(Climbs { ladders: 0, functions: Vec::new() }) };
}

/// Exists while a thread is on the ladder of a function. The declared functions that a retry calls have ladders of
/// their own, but each fails on one only once: otherwise, the number of attempts would multiply with the depth of
/// the calls.
struct ClimbGuard {
    function: usize,
    has_failed: bool,
}

impl ClimbGuard {
    /// `None` if the function should not be retried now.
    fn acquire(definition: &Definition) -> Option<ClimbGuard> {
        let function = definition.id;
        CLIMBS.with_borrow_mut(|climbs| {
            if climbs.ladders == MOST_LADDERS || climbs.functions.contains(&function) {
                return None;
            }
            climbs.ladders += 1;
            climbs.functions.push(function);
            Some(ClimbGuard { function, has_failed: false })
        })
    }
}

impl Drop for ClimbGuard {
    fn drop(&mut self) {
        CLIMBS.with_borrow_mut(|climbs| {
            climbs.ladders -= 1;
            if climbs.ladders == 0 {
                climbs.functions.clear();
            } else if !self.has_failed {
                climbs.functions.retain(|function| *function != self.function);
            }
        });
    }
}

impl<'py> Call<'_, 'py> {
    /// Calls the function, and again on the rungs of the ladder when memory runs out. The scope is that in
    /// which the result will be finished.
    #[inline]
    pub fn recover(
        &self,
        slots: &ArgumentSlots<'py>,
        scope: ResultScope,
    ) -> PyResult<Bound<'py, PyAny>> {
        let was_short = self.definition.room.was_short();
        if was_short && let Some(done) = split_call(self, slots, scope) {
            return done;
        }
        match self.attempt(slots, &AttemptOptions::default()) {
            Ok((result, _)) => {
                if was_short {
                    note_whole(self, slots);
                }
                Ok(result)
            }
            Err(failed) => Ok(retry_call(self, slots, failed, scope)?.0),
        }
    }
}

/// Retries a failed call if memory ran out.
///
/// # Errors
///
/// The error of the first attempt, if it is not recoverable or every rung fails.
#[cold]
pub fn retry_call<'py>(
    call: &Call<'_, 'py>,
    slots: &ArgumentSlots<'py>,
    mut failed: FailedAttempt,
    scope: ResultScope,
) -> PyResult<(Bound<'py, PyAny>, Writes)> {
    let writes = failed.writes.take();
    let attempt = |ladder: &Ladder, rung| match rung {
        Rung::Clear | Rung::ClearAgain => {
            ladder.clear_caches(call.py);
            Ok(call.attempt(slots, &AttemptOptions::default())?)
        }
        Rung::Split => {
            ladder.clear_caches(call.py);
            let joined = split::split(ladder.accelerator(), call, slots, scope)?;
            Ok((joined, Writes::of(call.definition.options.input)))
        }
        Rung::Host => {
            let on_host = ladder.host_attempt(call).map_err(RungFailure::Skipped)?;
            ladder.clear_caches(call.py);
            let result = call.attempt(slots, &on_host)?;
            call.fell_back.set(true);
            Ok(result)
        }
    };
    let climbed = Ladder::new(call, slots, failed).and_then(|ladder| ladder.climb(call, attempt));
    let made = climbed.map(|(made, _)| made);
    made.inspect_err(|error| {
        if let Some(writes) = &writes {
            writes.write_back_after(call.py, call.definition, error);
        }
    })
}

/// Makes a call part by part at once, if an earlier one like it with as long a lead had to be split. `None` if the
/// whole should be tried, also because the parts failed: a function may give for the whole what it does not for
/// parts.
///
/// # Errors
///
/// Any exception that a part raises after the function had written to an argument, and any
/// interrupt.
#[cold]
pub fn split_call<'py>(
    call: &Call<'_, 'py>,
    slots: &ArgumentSlots<'py>,
    scope: ResultScope,
) -> Option<PyResult<Bound<'py, PyAny>>> {
    let (py, options) = (call.py, &call.definition.options);
    let takes_part = options.retries() && left_alone(call, slots).is_none();
    if !takes_part || !split::begins(call, slots) {
        return None;
    }
    let _guard = ClimbGuard::acquire(call.definition)?;
    let device = attempt(py, call_device(slots, options)).flatten();
    let start = trace::start();
    let made = split::split(index_of(device), call, slots, scope);
    if let Some(start) = start {
        let why = match &made {
            Ok(_) => Some(SHORT_BEFORE.to_owned()),
            Err(failure) => Some(failure.text(py)),
        };
        let record = |route, why: Option<String>| Record {
            why: why.map(Into::into),
            ..record(call, route, Rung::Split, device)
        };
        trace::push_span(py, record("rung", made.as_ref().err().and(why.clone())), start);
        if made.is_ok() {
            trace::push(py, record("retry", why), trace::now());
        }
    }
    match made {
        Ok(result) => Some(Ok(result)),
        Err(RungFailure::Skipped(_)) => None,
        Err(RungFailure::Refused(error)) => Some(Err(error)),
        Err(RungFailure::Failed(FailedAttempt { error, obstacle, .. })) => {
            if obstacle.is_none() && !is_interrupt(py, &error) {
                return release::clear_frames(py, &error).err().map(Err);
            }
            let note = format!("arraybridge made the call in parts: {SHORT_BEFORE}");
            let _ = add_note(py, &error, &note);
            Some(Err(error))
        }
    }
}

/// The reason why a call began with its parts.
const SHORT_BEFORE: &str = "memory ran out in an earlier call like this one";

/// The reason why a call is left alone: an array of it cannot be cut or converted, as a traced one cannot, or another
/// attempt would find an iterator where this one has left it.
fn left_alone(call: &Call<'_, '_>, slots: &ArgumentSlots<'_>) -> Option<String> {
    if has_iterator(call) {
        return Some("an argument is an iterator, which the function may have advanced".to_owned());
    }
    let mut own = slots.iter().filter(|slot| slot.is_of(call.definition.options.input));
    own.find_map(|slot| {
        let why = slot.obstacle()?;
        Some(format!("{} {why}", arguments::of_argument(call.definition, &slot.key)))
    })
}

fn has_iterator(call: &Call<'_, '_>) -> bool {
    // An array may have `__next__` too, and is there again.
    let is_iterator = |value: Bound<'_, PyAny>| {
        value.cast::<PyIterator>().is_ok() && detect::class_of(&value).is_none()
    };
    let mut kwargs = call.kwargs.iter().flatten();
    call.args.iter().any(is_iterator) || kwargs.any(|(_, value)| is_iterator(value))
}

/// Adds the way out to an error about a dtype that the framework has and an operation of it lacks.
#[cold]
pub fn note_gap(py: Python<'_>, definition: &Definition, error: &PyErr) {
    let options = &definition.options;
    if options.input_dtype.is_none() && oom::lacks_dtype(py, error, options.execution) {
        let title = options.execution.title;
        let note = format!(
            "arraybridge: {title} has this operation for other dtypes; declare input_dtype=\"float32\" to get the \
             arrays in that one, or cast them in the function"
        );
        let _ = add_note(py, error, &note);
    }
}

/// The index of an accelerator.
fn index_of(device: Option<Device>) -> Option<usize> {
    match device {
        Some(Device::Accelerator(index)) => Some(index),
        _ => None,
    }
}

/// Calls a function, and again with all caches cleared while it fails because the framework runs out
/// of memory, at most `max_retries` times.
pub fn retry<'py>(
    function: &Bound<'py, PyAny>,
    framework: &'static Framework,
    max_retries: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let py = function.py();
    park::rather_than_end(py);
    let mut result = function.call0();
    for _ in 0..max_retries {
        let Err(error) = &result else { break };
        let out_of_memory = oom::framework_of(py, error, Some(framework));
        if out_of_memory.is_none_or(|found| !found.is(framework)) {
            break;
        }
        release::clear_frames(py, error)?;
        cleanup::clear_all(py, None)?;
        result = function.call0();
    }
    result
}

/// The rungs that are left for a call.
pub struct Ladder {
    /// The error of the first attempt.
    error: PyErr,
    /// The framework that ran out of memory.
    framework: &'static Framework,
    /// The device of the call, if there was a choice.
    device: Option<Device>,
    rungs: VecDeque<Rung>,
    /// Why the parts of a call that is declared to be split gave no result, if memory was enough for them.
    unsplit: Option<String>,
}

impl Ladder {
    /// The ladder for a failed attempt.
    ///
    /// # Errors
    ///
    /// The attempt's error, if the call cannot be retried.
    pub fn new<'py>(
        call: &Call<'_, 'py>,
        slots: &ArgumentSlots<'py>,
        failed: FailedAttempt,
    ) -> PyResult<Ladder> {
        let (py, options) = (call.py, &call.definition.options);
        let FailedAttempt { error, obstacle, .. } = failed;
        let of = || oom::framework_of(py, &error, Some(options.execution));
        let Some(framework) = options.retries().then(of).flatten() else {
            note_gap(py, call.definition, &error);
            return Err(error);
        };
        let obstacle = obstacle.map(str::to_owned);
        if let Some(why) = obstacle.or_else(|| left_alone(call, slots)) {
            let _ = add_note(py, &error, &format!("arraybridge did not try again: {why}"));
            return Err(error);
        }
        let device = attempt(py, call_device(slots, options)).flatten();
        Ok(Ladder { error, framework, device, rungs: expanded(options).into(), unsplit: None })
    }

    /// Makes attempts on the rungs that are left until one succeeds. Returns its result, and the ladder
    /// for a later failure of the same call.
    ///
    /// # Errors
    ///
    /// The error of the first attempt if every rung fails, and any interrupt. The warning about a call
    /// on the host, if a filter makes it an exception.
    pub fn climb<T>(
        mut self,
        call: &Call<'_, '_>,
        mut attempt: impl FnMut(&Ladder, Rung) -> Result<T, RungFailure>,
    ) -> PyResult<(T, Ladder)> {
        let py = call.py;
        let Some(mut guard) = ClimbGuard::acquire(call.definition) else { return Err(self.error) };
        while let Some(rung) = self.rungs.pop_front() {
            release::clear_frames(py, &self.error)?;
            if rung == Rung::ClearAgain {
                py.detach(|| std::thread::sleep(WAIT));
                py.check_signals()?;
            }
            let start = trace::start();
            let attempted = attempt(&self, rung);
            if let Some(start) = start {
                let error = attempted.as_ref().err().map(|failure| failure.text(py).into());
                let rung = record(call, "rung", rung, self.device);
                trace::push_span(py, Record { why: error, ..rung }, start);
            }
            match attempted {
                Ok(result) => {
                    self.report_success(call, rung)?;
                    return Ok((result, self));
                }
                Err(failure) => {
                    if rung == Rung::Split && call.definition.options.split_axis.is_some() {
                        self.unsplit = failure.other_reason(py);
                    }
                    self.note_failure(py, rung, failure)?;
                }
            }
        }
        guard.has_failed = true;
        Err(self.error)
    }

    /// The ladder for a later failure of a call that was retried before.
    ///
    /// # Errors
    ///
    /// The error of the first attempt, if the function has written to an argument.
    pub fn resume(self, py: Python<'_>, failed: FailedAttempt) -> PyResult<Ladder> {
        if let Some(why) = failed.obstacle {
            self.note_end(py, why)?;
            return Err(self.error);
        }
        Ok(self)
    }

    /// Collects garbage, and clears the caches of every loaded framework.
    pub fn clear_caches(&self, py: Python<'_>) {
        // If one framework cannot clear its caches, the others have still made room.
        let _ = cleanup::clear_all(py, self.accelerator());
    }

    /// The index of the accelerator of the call.
    fn accelerator(&self) -> Option<usize> {
        index_of(self.device)
    }

    /// Records which rung succeeded, and warns if it was the host.
    fn report_success(&self, call: &Call<'_, '_>, rung: Rung) -> PyResult<()> {
        if trace::is_tracing() {
            let retry = record(call, "retry", rung, self.device).because("memory ran out");
            trace::push(call.py, retry, trace::now());
        }
        match rung {
            Rung::Host => self.warn_of_host(call),
            Rung::Clear | Rung::ClearAgain | Rung::Split => Ok(()),
        }
    }

    fn warn_of_host(&self, call: &Call<'_, '_>) -> PyResult<()> {
        let py = call.py;
        let unsplit = self.unsplit.as_ref().map(|why| format!("; split: {why}"));
        let text = format!(
            "{} ran out of {} memory and was called again on the host ({}{})",
            call.definition.name,
            self.framework.title,
            first_line(py, &self.error),
            unsplit.unwrap_or_default()
        );
        warn(py, "OomFallbackWarning", text).inspect_err(|raised| {
            raised.set_cause(py, Some(self.error.clone_ref(py)));
        })
    }

    /// Adds a note to the first error on why a rung failed. An interrupt is raised instead.
    fn note_failure(&mut self, py: Python<'_>, rung: Rung, failure: RungFailure) -> PyResult<()> {
        let name = rung.name();
        let failed = match failure {
            RungFailure::Failed(failed) => failed,
            RungFailure::Skipped(why) => {
                return add_note(py, &self.error, &format!("arraybridge: no {name}: {why}"));
            }
            RungFailure::Refused(error) => return Err(error),
        };
        if is_interrupt(py, &failed.error) {
            return Err(failed.error);
        }
        let line = first_line(py, &failed.error);
        release::clear_frames(py, &failed.error)?;
        add_note(py, &self.error, &format!("arraybridge tried {name}: {line}"))?;
        if rung == Rung::Clear && oom::framework_of(py, &failed.error, None).is_none() {
            // A second clear helps only if memory ran out again.
            self.rungs.retain(|rung| *rung != Rung::ClearAgain);
        }
        if let Some(why) = failed.obstacle {
            self.rungs.clear();
            self.note_end(py, why)?;
        }
        Ok(())
    }

    fn note_end(&self, py: Python<'_>, why: &str) -> PyResult<()> {
        add_note(py, &self.error, &format!("arraybridge stopped: {why}"))
    }
}

/// A record of a rung.
fn record(call: &Call<'_, '_>, route: &'static str, rung: Rung, device: Option<Device>) -> Record {
    let framework = call.definition.options.execution;
    let device = match rung {
        Rung::Host => Device::Host,
        Rung::Clear | Rung::ClearAgain | Rung::Split => device.unwrap_or(Device::Host),
    };
    Record {
        device: device.name(),
        ..Record::between(framework.name, framework.name, route, rung.name())
    }
}
