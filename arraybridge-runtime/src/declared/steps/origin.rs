//! The call that a coroutine or a generator comes from.

use pyo3::exceptions::{PyStopAsyncIteration, PyStopIteration};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::async_generator::AsyncSteps;
use crate::declared::Declared;
use crate::declared::arguments::{self, ArgumentSlot, ArgumentSlots, Destination, UnboundVersions};
use crate::declared::call::{AttemptOptions, Call, FailedAttempt};
use crate::declared::ladder::{self, Ladder, Rung, RungFailure};
use crate::declared::result::{self, ResultScope};
use crate::declared::scope;
use crate::framework::device;
use crate::framework::spec::Framework;
use crate::interpreter::error::Result;
use crate::policy::Policy;

/// A call, independent of the interpreter's lifetime.
pub(super) struct CallOrigin {
    declared: Py<Declared>,
    args: Py<PyTuple>,
    kwargs: Option<Py<PyDict>>,
    policy: Policy,
    /// The destination of the arrays after a retry, if it is not the one that the declaration
    /// names.
    pub destination: Option<Destination>,
    /// The last value with arrays that the caller sent.
    sent: Option<Py<PyAny>>,
}

/// A coroutine or a generator that was created by a retry, after its first step.
pub(super) struct Restarted<'py> {
    /// The coroutine, the generator, or the first step of an asynchronous generator.
    pub inner: Bound<'py, PyAny>,
    /// The destination of its arrays.
    pub destination: Option<Destination>,
    /// The outcome of the first step: a value, or the end.
    pub first_step: PyResult<Bound<'py, PyAny>>,
    /// The arrays that the function could write to.
    pub versions: UnboundVersions,
}

/// Computes the arrays that a step yields or returns, where its framework is lazy.
fn computed<'py>(
    py: Python<'py>,
    framework: &'static Framework,
    step: PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    match &step {
        Ok(value) => result::compute(framework, value)?,
        Err(error) if framework.lazy && error.is_instance_of::<PyStopIteration>(py) => {
            result::compute(framework, &error.value(py).getattr(intern!(py, "value"))?)?;
        }
        Err(_) => {}
    }
    step
}

impl CallOrigin {
    pub fn new<'py>(declared: &Bound<'py, Declared>, call: &Call<'_, 'py>) -> CallOrigin {
        CallOrigin {
            declared: declared.clone().unbind(),
            args: call.args.clone().unbind(),
            kwargs: call.kwargs.clone().map(Bound::unbind),
            policy: call.policy,
            destination: None,
            sent: None,
        }
    }

    pub fn clone_ref(&self, py: Python<'_>) -> CallOrigin {
        CallOrigin {
            declared: self.declared.clone_ref(py),
            args: self.args.clone_ref(py),
            kwargs: self.kwargs.as_ref().map(|kwargs| kwargs.clone_ref(py)),
            policy: self.policy,
            destination: self.destination,
            sent: self.sent.as_ref().map(|sent| sent.clone_ref(py)),
        }
    }

    /// The call.
    ///
    /// # Errors
    ///
    /// The errors of [`Call::new`].
    pub fn call<'a, 'py>(&'a self, py: Python<'py>) -> Result<Call<'a, 'py>> {
        let kwargs = self.kwargs.as_ref().map(|kwargs| kwargs.bind(py));
        let definition = self.declared.get().definition();
        let mut call = Call::new(py, definition, self.args.bind(py), kwargs, self.policy);
        call.find_arrays()?;
        Ok(call)
    }

    /// The arrays that the caller sent last.
    fn sent<'py>(&self, py: Python<'py>) -> Result<ArgumentSlots<'py>> {
        match &self.sent {
            Some(sent) => arguments::find_sent(self.declared.get().definition(), sent.bind(py)),
            None => Ok(ArgumentSlots::new()),
        }
    }

    /// Converts the arrays of a value that the caller sends to a generator, as those of an argument.
    ///
    /// # Errors
    ///
    /// The errors of [`arguments::fit`].
    pub fn receive<'py>(&mut self, value: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (py, definition) = (value.py(), self.declared.get().definition());
        let slots = arguments::find_sent(definition, &value)?;
        if slots.is_empty() {
            return Ok(value);
        }
        let (options, framework) = (&definition.options, definition.options.input);
        // They go to where the arguments of the call went.
        let destination = match self.destination {
            None => {
                let call = self.call(py)?;
                let placement = scope::call_placement(py, framework, &call.slots, options)?;
                placement.device().map(|_| Destination { framework, placement })
            }
            destination => destination,
        };
        let args = PyTuple::new(py, [&value])?;
        let fitted = arguments::fit(definition, &args, None, &slots, destination)?;
        drop(slots);
        self.sent = Some(value.unbind());
        fitted.args.get_item(0)
    }

    /// Forgets what the caller sent.
    pub fn clear(&mut self) {
        self.sent = None;
    }

    /// Runs one step on the device and the stream of the call, or in the host's scope.
    ///
    /// # Errors
    ///
    /// Any error that `body` returns, and any exception that the framework raises.
    pub fn scoped<'py>(
        &self,
        py: Python<'py>,
        on_host: bool,
        body: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let framework = self.declared.get().definition().options.execution;
        let body = || computed(py, framework, body());
        if on_host {
            return match ladder::host_scope(py, framework)? {
                Some(scope) => device::entered(&scope, body),
                None => body(),
            };
        }
        if !scope::applies_to(framework) {
            return body();
        }
        let mut call = self.call(py)?;
        let options = &call.definition.options;
        let place = scope::call_placement(py, framework, &call.slots, options)?;
        call.slots.extend(self.sent(py)?);
        let used = |slot: &ArgumentSlot<'py>| Some(slot.value.clone());
        scope::enter(py, framework, place, &call.slots, used, body)
    }

    /// Gives a result its dtype and its framework. It may come from a call on the host after memory ran out.
    ///
    /// # Errors
    ///
    /// As [`Call::finish`].
    pub fn finish<'py>(
        &self,
        value: Bound<'py, PyAny>,
        on_host: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let call = self.call(value.py())?;
        call.fell_back.set(on_host);
        let execution = call.definition.options.execution;
        // The function may still read memory that was shared, and that the caller may write to.
        let may_change = |slot: &ArgumentSlot<'py>| !slot.class.framework.immutable;
        if execution.ready.is_some()
            && (call.slots.iter().any(may_change) || self.sent(call.py)?.iter().any(may_change))
        {
            result::wait(execution, &value)?;
        }
        call.finish(value, ResultScope::Call)
    }

    /// Calls the function again, and makes the first step.
    ///
    /// # Errors
    ///
    /// The reason why the rung does not apply, and what the call or the step raises. The end of the
    /// iteration is not an error, but the result of the step.
    pub fn restart<'py>(
        &self,
        call: &Call<'_, 'py>,
        ladder: &Ladder,
        rung: Rung,
        generator: Option<&Bound<'py, AsyncSteps>>,
    ) -> Result<Restarted<'py>, RungFailure> {
        let py = call.py;
        let attempt = match rung {
            Rung::Clear | Rung::ClearAgain => AttemptOptions::default(),
            Rung::Host => ladder.host_attempt(call).map_err(RungFailure::Skipped)?,
            Rung::Split => {
                let why = "a coroutine or a generator cannot be split";
                return Err(RungFailure::Skipped(why.to_owned()));
            }
        };
        ladder.clear_caches(py);
        // The scope is entered for each step, not for the call.
        let attempt = AttemptOptions { scope: None, ..attempt };
        let destination = attempt.destination;
        let (mut inner, versions) = call.attempt(&call.slots, &attempt)?;
        if let Some(generator) = generator {
            generator.try_borrow_mut().map_err(PyErr::from)?.restart(&inner);
            inner = inner.call_method0(intern!(py, "__anext__"))?;
        }
        let send = || inner.call_method1(intern!(py, "send"), (py.None(),));
        let first_step = self.scoped(py, rung == Rung::Host, send);
        if let Err(error) = &first_step
            && !error.is_instance_of::<PyStopIteration>(py)
            && !error.is_instance_of::<PyStopAsyncIteration>(py)
        {
            let written = versions.any_changed(call.definition.options.input);
            return Err(FailedAttempt { error: error.clone_ref(py), written }.into());
        }
        Ok(Restarted { inner, destination, first_step, versions: versions.unbind() })
    }

    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.declared)?;
        visit.call(&self.args)?;
        visit.call(&self.kwargs)?;
        visit.call(&self.sent)
    }
}
