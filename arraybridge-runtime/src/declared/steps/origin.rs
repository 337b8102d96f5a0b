//! The call that a coroutine or a generator comes from.

use pyo3::exceptions::{PyStopAsyncIteration, PyStopIteration};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::declared::Declared;
use crate::declared::arguments::{
    self, ArgumentSlot, ArgumentSlots, ArrayVersions, Destination, UnboundVersions,
};
use crate::declared::call::{AttemptOptions, Call, FailedAttempt};
use crate::declared::ladder::{self, Ladder, Rung, RungFailure};
use crate::declared::ready;
use crate::declared::result::ResultScope;
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
    /// The place of the call after a retry.
    pub moved: Moved,
    /// The last value with arrays that the caller sent.
    sent: Option<Py<PyAny>>,
}

/// The place of a call after a retry.
#[derive(Clone, Copy, Default)]
pub(super) struct Moved {
    /// The destination of the arrays, if it is not the one that the declaration names.
    destination: Option<Destination>,
    /// True if the call is on the host.
    on_host: bool,
}

/// A coroutine or a generator that was created by a retry.
pub(super) struct Made<'py> {
    /// The coroutine, the generator, or the first step of an asynchronous generator.
    pub inner: Bound<'py, PyAny>,
    moved: Moved,
    versions: ArrayVersions<'py>,
}

/// The same after its first step.
pub(super) struct Restarted<'py> {
    /// The coroutine, the generator, or the first step of an asynchronous generator.
    pub inner: Bound<'py, PyAny>,
    /// The place of the call.
    pub moved: Moved,
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
        Ok(value) => ready::compute(framework, value)?,
        Err(error) if framework.lazy && error.is_instance_of::<PyStopIteration>(py) => {
            ready::compute(framework, &error.value(py).getattr(intern!(py, "value"))?)?;
        }
        Err(_) => {}
    }
    step
}

impl CallOrigin {
    pub fn new(call: &Call<'_, '_>) -> CallOrigin {
        CallOrigin {
            declared: call.declared.clone().unbind(),
            args: call.args.clone().unbind(),
            kwargs: call.kwargs.clone().map(Bound::unbind),
            policy: call.policy,
            moved: Moved::default(),
            sent: None,
        }
    }

    pub fn clone_ref(&self, py: Python<'_>) -> CallOrigin {
        CallOrigin {
            declared: self.declared.clone_ref(py),
            args: self.args.clone_ref(py),
            kwargs: self.kwargs.as_ref().map(|kwargs| kwargs.clone_ref(py)),
            policy: self.policy,
            moved: self.moved,
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
        let (declared, args) = (self.declared.bind(py), self.args.bind(py));
        let mut call = Call::new(declared, args, kwargs, self.policy);
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
        let destination = match self.moved.destination {
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
        body: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.scoped_at(py, self.moved, body)
    }

    fn scoped_at<'py>(
        &self,
        py: Python<'py>,
        place: Moved,
        body: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let framework = self.declared.get().definition().options.execution;
        let body = || computed(py, framework, body());
        if place.on_host {
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
    pub fn finish<'py>(&self, value: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let call = self.call(value.py())?;
        call.fell_back.set(self.moved.on_host);
        let execution = call.definition.options.execution;
        // The function may still read memory that was shared, and that the caller may write to.
        let may_change = |slot: &ArgumentSlot<'py>| !slot.class.framework.immutable;
        if execution.ready.is_some()
            && (call.slots.iter().any(may_change) || self.sent(call.py)?.iter().any(may_change))
        {
            ready::wait(execution, &value)?;
        }
        call.finish(value, ResultScope::Call)
    }

    /// Calls the function again.
    ///
    /// # Errors
    ///
    /// The reason why the rung does not apply, and what the call raises.
    pub fn made_anew<'py>(
        &self,
        call: &Call<'_, 'py>,
        ladder: &Ladder,
        rung: Rung,
    ) -> Result<Made<'py>, RungFailure> {
        let attempt = match rung {
            Rung::Clear | Rung::ClearAgain => AttemptOptions::default(),
            Rung::Host => ladder.host_attempt(call).map_err(RungFailure::Skipped)?,
            Rung::Split => {
                let why = "a coroutine or a generator cannot be split";
                return Err(RungFailure::Skipped(why.to_owned()));
            }
        };
        ladder.clear_caches(call.py);
        // The scope is entered for each step, not for the call.
        let attempt = AttemptOptions { scope: None, ..attempt };
        let moved = Moved { destination: attempt.destination, on_host: rung == Rung::Host };
        let (inner, versions) = call.attempt(&call.slots, &attempt)?;
        Ok(Made { inner, moved, versions })
    }

    /// Makes the first step.
    ///
    /// # Errors
    ///
    /// Any exception that the step raises. The end of the iteration is not an error, but the result of the step.
    pub fn begun<'py>(&self, made: Made<'py>) -> Result<Restarted<'py>, RungFailure> {
        let Made { inner, moved, versions } = made;
        let py = inner.py();
        let send = || inner.call_method1(intern!(py, "send"), (py.None(),));
        let first_step = self.scoped_at(py, moved, send);
        if let Err(error) = &first_step
            && !error.is_instance_of::<PyStopIteration>(py)
            && !error.is_instance_of::<PyStopAsyncIteration>(py)
        {
            let input = self.declared.get().definition().options.input;
            let written = versions.any_changed(input);
            return Err(FailedAttempt { error: error.clone_ref(py), written }.into());
        }
        Ok(Restarted { inner, moved, first_step, versions: versions.unbind() })
    }

    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.declared)?;
        visit.call(&self.args)?;
        visit.call(&self.kwargs)?;
        visit.call(&self.sent)
    }
}
