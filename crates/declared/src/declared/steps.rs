//! Coroutines and generators of declared functions, whose steps `arraybridge._declared.steps` makes.

use arraybridge_runtime::interpreter::package::Part;
use arraybridge_runtime::interpreter::panic::memory_errors;
use std::sync::{Mutex, PoisonError};

use arraybridge_runtime::intern;
use pyo3::exceptions::{PyStopAsyncIteration, PyStopIteration};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use super::Declared;
use super::arguments::{self, ArgumentSlot, ArgumentSlots, Destination, Writes};
use super::call::{AttemptOptions, Call, FailedAttempt};
use super::definition::FunctionKind;
use super::ladder::{self, Ladder, Rung, RungFailure};
use super::ready;
use super::result::ResultScope;
use super::scope;
use crate::policy::Policy;
use arraybridge_runtime::framework::device;
use arraybridge_runtime::framework::oom;
use arraybridge_runtime::framework::spec::Framework;
use arraybridge_runtime::interpreter::error::Result;
use arraybridge_runtime::interpreter::park;
use arraybridge_runtime::interpreter::stack;

/// Calls a function that returns a coroutine or a generator, and wraps what it returns.
pub(super) fn start<'py>(call: Call<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
    let py = call.py;
    let (inner, writes) = match call.attempt(&call.slots, &AttemptOptions::default()) {
        Ok(made) => made,
        Err(failed) => ladder::retry_call(&call, &call.slots, failed, ResultScope::Call)?,
    };
    let class = match call.definition.kind {
        FunctionKind::Generator => intern!(py, "Generator"),
        FunctionKind::AsyncGenerator => intern!(py, "AsyncGenerator"),
        FunctionKind::Coroutine | FunctionKind::Plain => intern!(py, "Coroutine"),
    };
    let origin = CallOrigin {
        declared: call.declared.clone().unbind(),
        args: call.args.clone().unbind(),
        kwargs: call.kwargs.clone().map(Bound::unbind),
        policy: call.policy,
        destination: None,
        on_host: false,
        writes,
        ladder: Mutex::default(),
    };
    Part::Steps.get(py)?.getattr(class)?.call1((origin, inner))
}

/// The call that a coroutine or a generator comes from.
#[pyclass(frozen, module = "arraybridge._core")]
struct CallOrigin {
    declared: Py<Declared>,
    args: Py<PyTuple>,
    kwargs: Option<Py<PyDict>>,
    policy: Policy,
    /// The destination of the arrays, if a retry moved them.
    destination: Option<Destination>,
    /// True if a retry made the call on the host.
    on_host: bool,
    /// The arrays that the function could write to.
    writes: Writes,
    /// The rungs that are left after a retry.
    ladder: Mutex<Option<Ladder>>,
}

/// The origin and the steps to go on with, true for the last step, and its value.
type MadeStep<'py> = (Bound<'py, CallOrigin>, Bound<'py, PyAny>, bool, Bound<'py, PyAny>);

/// A call that was made again: its origin, its steps, and the outcome of the first one.
type Restarted<'py> = (Bound<'py, CallOrigin>, Bound<'py, PyAny>, PyResult<Bound<'py, PyAny>>);

#[pymethods]
impl CallOrigin {
    /// Makes a step. If memory runs out, makes the call again, and its first step, if `begin` returns the steps.
    #[memory_errors]
    fn step<'py>(
        slf: &Bound<'py, Self>,
        inner: Bound<'py, PyAny>,
        method: &Bound<'py, PyString>,
        arguments: &Bound<'py, PyTuple>,
        sent: Option<&Bound<'py, PyAny>>,
        begin: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<MadeStep<'py>> {
        let py = slf.py();
        park::rather_than_end(py);
        stack::expect_room()?;
        let step = slf.get().scoped(py, sent, || inner.call_method1(method, arguments));
        let (origin, inner, step) = match (step, begin) {
            (Err(error), Some(begin)) if oom::framework_of(py, &error, None).is_some() => {
                slf.get().restart(error, begin)?
            }
            (step, _) => (slf.clone(), inner, step),
        };
        let step = origin.get().written_back(py, step);
        match step {
            Err(error) if error.is_instance_of::<PyStopIteration>(py) => {
                let value = error.value(py).getattr(intern!(py, "value"))?;
                Ok((origin, inner, true, value))
            }
            step => Ok((origin, inner, false, step?)),
        }
    }

    /// Converts the arrays of a value that the caller sends to a generator, as those of an argument. Returns None if
    /// there are none.
    #[memory_errors]
    fn receive<'py>(&self, value: Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (py, definition) = (value.py(), self.declared.get().definition());
        let slots = arguments::find_sent(definition, &value)?;
        if slots.is_empty() {
            return Ok(None);
        }
        let (options, framework) = (&definition.options, definition.options.input);
        // They go to where the arguments of the call went.
        let destination = match self.destination {
            None => {
                let call = self.call(py)?;
                let placement = scope::call_placement(framework, &call.slots, options)?;
                placement.device().map(|_| Destination { framework, placement })
            }
            destination => destination,
        };
        let args = PyTuple::new(py, [&value])?;
        let fitted = arguments::fit(definition, (&args, None), &slots, destination)?;
        fitted.args.get_item(0).map(Some)
    }

    /// Gives a result its dtype and its framework. It may come from a call on the host after memory ran out.
    #[memory_errors]
    fn finish<'py>(
        &self,
        mut value: Bound<'py, PyAny>,
        sent: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let call = self.call(value.py())?;
        call.fell_back.set(self.on_host);
        let execution = call.definition.options.execution;
        // The function may still read memory that was shared, and that the caller may write to.
        let may_change = |slot: &ArgumentSlot<'py>| !slot.class.framework.immutable;
        if execution.ready.is_some()
            && (call.slots.iter().any(may_change) || self.sent(sent)?.iter().any(may_change))
        {
            value = ready::wait(execution, value)?;
        }
        call.finish(value, ResultScope::Call, Ok)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.declared)?;
        visit.call(&self.args)?;
        visit.call(&self.kwargs)?;
        self.writes.visit(&visit)
    }
}

impl CallOrigin {
    /// The call.
    fn call<'a, 'py>(&'a self, py: Python<'py>) -> Result<Call<'a, 'py>> {
        let kwargs = self.kwargs.as_ref().map(|kwargs| kwargs.bind(py));
        let (declared, args) = (self.declared.bind(py), self.args.bind(py));
        let mut call = Call::new(declared, args, kwargs, self.policy);
        call.find_arrays(false)?;
        Ok(call)
    }

    /// The arrays that the caller sent last.
    fn sent<'py>(&self, sent: Option<&Bound<'py, PyAny>>) -> Result<ArgumentSlots<'py>> {
        match sent {
            Some(sent) => arguments::find_sent(self.declared.get().definition(), sent),
            None => Ok(ArgumentSlots::new()),
        }
    }

    /// Runs one step on the device and the stream of the call, or in the host's scope.
    fn scoped<'py>(
        &self,
        py: Python<'py>,
        sent: Option<&Bound<'py, PyAny>>,
        body: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let framework = self.declared.get().definition().options.execution;
        let body = || computed(py, framework, body());
        if self.on_host {
            return match ladder::host_scope(py, framework)? {
                Some(scope) => device::entered(&scope, body),
                None => body(),
            };
        }
        if !framework.enters_devices() {
            return body();
        }
        let mut call = self.call(py)?;
        let options = &call.definition.options;
        let place = scope::call_placement(framework, &call.slots, options)?;
        call.slots.extend(self.sent(sent)?);
        let used = |slot: &ArgumentSlot<'py>| Some(slot.value.clone());
        scope::enter(framework, place, (&call.slots, used), body)
    }

    /// Writes back what a step has written to copies, whatever its outcome is.
    fn written_back<'py>(
        &self,
        py: Python<'py>,
        step: PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let definition = self.declared.get().definition();
        match step {
            Err(error) if !is_end(py, &error) => {
                self.writes.write_back_after(py, definition, &error);
                Err(error)
            }
            step => self.writes.write_back(py, definition).map_err(PyErr::from).and(step),
        }
    }

    /// Calls the function again on the next rung of the ladder.
    ///
    /// # Errors
    ///
    /// The error of the first attempt, if every rung fails or the call cannot be retried.
    fn restart<'py>(&self, error: PyErr, begin: &Bound<'py, PyAny>) -> PyResult<Restarted<'py>> {
        let restarted = self.restarted(error, begin);
        let definition = self.declared.get().definition();
        restarted.inspect_err(|error| self.writes.write_back_after(begin.py(), definition, error))
    }

    fn restarted<'py>(&self, error: PyErr, begin: &Bound<'py, PyAny>) -> PyResult<Restarted<'py>> {
        let py = begin.py();
        let call = self.call(py)?;
        let failed = FailedAttempt { error, obstacle: self.writes.obstacle(py), writes: None };
        let left = self.ladder.lock().unwrap_or_else(PoisonError::into_inner).take();
        let ladder = match left {
            Some(ladder) => ladder.resume(py, failed)?,
            None => Ladder::new(&call, &call.slots, failed)?,
        };
        let (restarted, ladder) = ladder.climb(&call, |ladder, rung| {
            let attempt = match rung {
                Rung::Clear | Rung::ClearAgain => AttemptOptions::default(),
                Rung::Host => ladder.host_attempt(&call).map_err(RungFailure::Skipped)?,
                Rung::Split => {
                    let why = "a coroutine or a generator cannot be split";
                    return Err(RungFailure::Skipped(why.to_owned()));
                }
            };
            ladder.clear_caches(py);
            self.made_anew(&call, begin, attempt)
        })?;
        let kept = &restarted.0.get().ladder;
        *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(ladder);
        Ok(restarted)
    }

    /// Calls the function again, and makes the first step.
    ///
    /// # Errors
    ///
    /// Any exception that the call or the step raises. The end of the iteration is not an error, but the outcome of
    /// the step.
    fn made_anew<'py>(
        &self,
        call: &Call<'_, 'py>,
        begin: &Bound<'py, PyAny>,
        attempt: AttemptOptions<'py>,
    ) -> Result<Restarted<'py>, RungFailure> {
        let py = call.py;
        // The scope is entered for each step, not for the call.
        let attempt = AttemptOptions { scope: None, ..attempt };
        let (made, writes) = call.attempt(&call.slots, &attempt)?;
        let origin = CallOrigin {
            declared: self.declared.clone_ref(py),
            args: self.args.clone_ref(py),
            kwargs: self.kwargs.as_ref().map(|kwargs| kwargs.clone_ref(py)),
            policy: self.policy,
            destination: attempt.destination,
            on_host: attempt.on_host,
            writes,
            ladder: Mutex::default(),
        };
        let origin = Bound::new(py, origin)?;
        let inner = begin.call1((&origin, made))?;
        let send = || inner.call_method1(intern!(py, "send"), (py.None(),));
        let step = origin.get().scoped(py, None, send);
        if let Err(error) = &step
            && !is_end(py, error)
        {
            let (error, obstacle) = (error.clone_ref(py), origin.get().writes.obstacle(py));
            return Err(FailedAttempt { error, obstacle, writes: None }.into());
        }
        Ok((origin, inner, step))
    }
}

/// Returns whether an exception is the end of an iteration, which is the outcome of a step.
fn is_end(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyStopIteration>(py) || error.is_instance_of::<PyStopAsyncIteration>(py)
}

/// Computes the arrays that a step yields or returns, where its framework is lazy.
fn computed<'py>(
    py: Python<'py>,
    framework: &'static Framework,
    step: PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    match step {
        Ok(value) => ready::compute(framework, value),
        Err(error) if framework.lazy && error.is_instance_of::<PyStopIteration>(py) => {
            let (stop, value) = (error.value(py), intern!(py, "value"));
            stop.setattr(value, ready::compute(framework, stop.getattr(value)?)?)?;
            Err(error)
        }
        step => step,
    }
}
