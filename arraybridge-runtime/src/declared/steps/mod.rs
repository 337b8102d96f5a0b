//! Coroutines and generators of declared functions.
//!
//! The device of a call is entered for each step and left at its end, so that two tasks that take
//! turns on one thread do not run in each other's scopes.

mod async_generator;
mod origin;

use pyo3::exceptions::{PyAttributeError, PyRuntimeError, PyStopIteration};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use super::arguments::{ArrayVersions, UnboundVersions};
use super::call::{AttemptOptions, Call, FailedAttempt};
use super::definition::FunctionKind;
use super::ladder::{self, Ladder};
use super::result::ResultScope;
use crate::framework::oom;
use crate::interpreter::park;
use async_generator::AsyncSteps;
use origin::CallOrigin;

/// Calls a function that returns a coroutine or a generator, and wraps what it returns.
///
/// # Errors
///
/// Any exception that the call raises.
pub(super) fn start<'py>(call: Call<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
    let py = call.py;
    let (inner, versions) = match call.attempt(&call.slots, &AttemptOptions::default()) {
        Ok((inner, versions)) => (inner, versions.unbind()),
        Err(failed) => {
            (ladder::retry_call(&call, &call.slots, failed, ResultScope::Call)?, Vec::new())
        }
    };
    let origin = CallOrigin::new(&call);
    let kind = call.definition.kind;
    if kind == FunctionKind::AsyncGenerator {
        return Ok(Bound::new(py, AsyncSteps::new(inner, origin, versions))?.into_any());
    }
    let steps = Steps {
        inner: Some(inner.unbind()),
        origin,
        results: match kind {
            FunctionKind::Generator => StepResults::Yielded,
            _ => StepResults::Returned,
        },
        can_restart: true,
        versions,
        generator: None,
        ladder: None,
    };
    match kind {
        FunctionKind::Generator => {
            let steps = PyClassInitializer::from(steps).add_subclass(Generator);
            Ok(Bound::new(py, steps)?.into_any())
        }
        _ => Ok(Coroutine::new(py, steps)?.into_any()),
    }
}

/// The values of steps that are results.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StepResults {
    /// The values that a generator yields, and the one that it returns.
    Yielded,
    /// The value that is returned. A coroutine yields to its event loop.
    Returned,
    /// None of them, while an asynchronous generator is closed.
    None,
}

/// A coroutine, a generator, or one step of an asynchronous generator.
#[pyclass(module = "arraybridge", name = "Steps", weakref, subclass)]
pub struct Steps {
    /// The object that the function returned.
    inner: Option<Py<PyAny>>,
    origin: CallOrigin,
    results: StepResults,
    /// True if the function may be called again when memory runs out.
    can_restart: bool,
    /// The arrays that it could write to.
    versions: UnboundVersions,
    /// The asynchronous generator whose first step this is.
    generator: Option<Py<AsyncSteps>>,
    /// The rungs that are left after a retry.
    ladder: Option<Ladder>,
}

impl Steps {
    /// The value that the function receives for one that the caller sends. Values of an event loop
    /// are passed on.
    fn receive<'py>(
        slf: &Bound<'py, Self>,
        value: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut origin = {
            let this = slf.try_borrow()?;
            if this.results != StepResults::Yielded || value.is_none() {
                return Ok(value);
            }
            this.origin.clone_ref(slf.py())
        };
        let received = origin.receive(value)?;
        slf.try_borrow_mut()?.origin = origin;
        Ok(received)
    }

    /// Makes one step. The object is not borrowed meanwhile, since the step may use it.
    fn step<'py>(
        slf: &Bound<'py, Self>,
        method: &Bound<'py, PyString>,
        arguments: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        park::rather_than_end(py);
        let (inner, mut origin) = {
            let this = slf.try_borrow()?;
            let Some(inner) = &this.inner else {
                return Err(PyRuntimeError::new_err("it has been closed"));
            };
            (inner.bind(py).clone(), this.origin.clone_ref(py))
        };
        let mut result = origin.scoped(py, || inner.call_method1(method, arguments));
        if let Err(error) = result {
            result = Steps::retry(slf, &origin, error);
        }
        let results = {
            let mut this = slf.try_borrow_mut()?;
            // A new generator would yield the first result once more.
            this.can_restart &= this.results != StepResults::Yielded || result.is_err();
            origin.moved = this.origin.moved;
            this.results
        };
        match result {
            Ok(value) if results == StepResults::Yielded => origin.finish(value),
            Err(error)
                if results != StepResults::None && error.is_instance_of::<PyStopIteration>(py) =>
            {
                let value = error.value(py).getattr(intern!(py, "value"))?;
                if results == StepResults::Yielded && value.is_none() {
                    return Err(error);
                }
                Err(PyStopIteration::new_err((origin.finish(value)?.unbind(),)))
            }
            result => result,
        }
    }

    /// Calls the function again on the next rung of the ladder, if memory ran out. Returns the result of
    /// the first step.
    fn retry<'py>(
        slf: &Bound<'py, Self>,
        origin: &CallOrigin,
        error: PyErr,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let (ladder, generator, versions) = {
            let mut this = slf.try_borrow_mut()?;
            if !this.can_restart || oom::framework_of(py, &error, None).is_none() {
                return Err(error);
            }
            let generator = this.generator.as_ref().map(|generator| generator.bind(py).clone());
            (this.ladder.take(), generator, ArrayVersions::bind(py, &this.versions))
        };
        let call = origin.call(py)?;
        let written = versions.any_changed(call.definition.options.input);
        drop(versions);
        let failed = FailedAttempt { error, written };
        let ladder = match ladder {
            Some(ladder) => ladder.resume(py, failed)?,
            None => Ladder::new(&call, &call.slots, failed)?,
        };
        let (restarted, ladder) = ladder.climb(&call, |ladder, rung| {
            let mut made = origin.made_anew(&call, ladder, rung)?;
            if let Some(generator) = &generator {
                generator.try_borrow_mut().map_err(PyErr::from)?.restart(&made.inner);
                made.inner = made.inner.call_method0(intern!(py, "__anext__"))?;
            }
            origin.begun(made)
        })?;
        let mut this = slf.try_borrow_mut()?;
        this.versions = restarted.versions;
        this.inner = Some(restarted.inner.unbind());
        this.origin.moved = restarted.moved;
        if let Some(generator) = generator {
            generator.try_borrow_mut()?.origin.moved = restarted.moved;
        }
        this.ladder = Some(ladder);
        restarted.first_step
    }
}

#[pymethods]
impl Steps {
    fn __next__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        Steps::step(slf, intern!(py, "send"), &PyTuple::new(py, [py.None()])?)
    }

    fn send<'py>(slf: &Bound<'py, Self>, value: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let value = Steps::receive(slf, value)?;
        Steps::step(slf, intern!(py, "send"), &PyTuple::new(py, [value])?)
    }

    #[pyo3(signature = (*exception))]
    fn throw<'py>(
        slf: &Bound<'py, Self>,
        exception: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Steps::step(slf, intern!(slf.py(), "throw"), exception)
    }

    fn close<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let (inner, origin) = {
            let this = slf.try_borrow()?;
            let Some(inner) = &this.inner else { return Ok(py.None().into_bound(py)) };
            (inner.bind(py).clone(), this.origin.clone_ref(py))
        };
        origin.scoped(py, || inner.call_method0(intern!(py, "close")))
    }

    /// `cr_running`, `gi_frame` and the like are those of what the function returned.
    fn __getattr__<'py>(&self, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        delegate(self.inner.as_ref(), name)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.inner)?;
        visit.call(&self.generator)?;
        self.versions.iter().try_for_each(|(array, _)| visit.call(array))?;
        self.origin.visit(&visit)
    }

    fn __clear__(&mut self) {
        self.inner = None;
        self.generator = None;
        self.origin.clear();
    }
}

/// An awaitable [`Steps`].
#[pyclass(module = "arraybridge", name = "Coroutine", extends = Steps)]
pub struct Coroutine;

impl Coroutine {
    fn new(py: Python<'_>, steps: Steps) -> PyResult<Bound<'_, Coroutine>> {
        Bound::new(py, PyClassInitializer::from(steps).add_subclass(Coroutine))
    }
}

#[pymethods]
impl Coroutine {
    fn __await__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }
}

/// An iterable [`Steps`].
#[pyclass(module = "arraybridge", name = "Generator", extends = Steps)]
pub struct Generator;

#[pymethods]
impl Generator {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }
}

/// An attribute by which Python inspects coroutines and generators.
fn delegate<'py>(
    inner: Option<&Py<PyAny>>,
    name: &Bound<'py, PyString>,
) -> PyResult<Bound<'py, PyAny>> {
    let text = name.to_string();
    let known = ["cr_", "gi_", "ag_", "__name__", "__qualname__"];
    match inner.filter(|_| known.iter().any(|prefix| text.starts_with(prefix))) {
        Some(inner) => inner.bind(name.py()).getattr(name),
        None => Err(PyAttributeError::new_err(format!(
            "a coroutine or generator of a declared function has no attribute {text:?}"
        ))),
    }
}
