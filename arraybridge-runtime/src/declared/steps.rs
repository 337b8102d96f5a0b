//! Coroutines and generators of declared functions.
//!
//! The device of a call is entered for each step and left before the step's end, so that two tasks that
//! take turns on one thread keep their own.

use pyo3::exceptions::{PyRuntimeError, PyStopAsyncIteration, PyStopIteration};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use super::arguments::{Slot, Watched};
use super::result::Of;
use super::{Call, Declared, Failed, Kind, Mode, result};
use crate::declared::ladder::{self, Climbing, Ladder, Rung, Stop};
use crate::declared::scope;
use crate::framework::oom;
use crate::policy::Policy;

/// The arguments that a coroutine or a generator could write to.
type Arrays = Vec<(Py<PyAny>, i64)>;

/// A new coroutine or generator, what its first step gave, and the arguments.
type Fresh<'py> = (Bound<'py, PyAny>, PyResult<Bound<'py, PyAny>>, Arrays);

/// Starts what is not a plain call.
pub(super) fn start<'py>(
    declared: &Bound<'py, Declared>,
    call: Call<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = call.py;
    let (inner, watched) = match call.attempt(&call.slots, &Mode::default()) {
        Ok((inner, watched)) => (inner, watched.unbind()),
        Err(failed) => (ladder::climb(&call, &call.slots, failed)?, Vec::new()),
    };
    let origin = Origin {
        declared: declared.clone().unbind(),
        args: call.args.clone().unbind(),
        kwargs: call.kwargs.clone().map(Bound::unbind),
        policy: call.policy,
    };
    let kind = declared.get().core.kind;
    if kind == Kind::AsyncGenerator {
        let inner = inner.unbind();
        let steps = AsyncSteps { inner, origin, watched, started: false, on_host: false };
        return Ok(Bound::new(py, steps)?.into_any());
    }
    let steps = Steps::new(inner, origin, kind, watched);
    match kind {
        Kind::Generator => {
            let steps = PyClassInitializer::from(steps).add_subclass(Generator);
            Ok(Bound::new(py, steps)?.into_any())
        }
        _ => Ok(coroutine(py, steps)?.into_any()),
    }
}

fn coroutine(py: Python<'_>, steps: Steps) -> PyResult<Bound<'_, Coroutine>> {
    Bound::new(py, PyClassInitializer::from(steps).add_subclass(Coroutine))
}

/// The call that a coroutine or a generator comes from.
struct Origin {
    declared: Py<Declared>,
    args: Py<PyTuple>,
    kwargs: Option<Py<PyDict>>,
    policy: Policy,
}

impl Origin {
    fn copied(&self, py: Python<'_>) -> Origin {
        Origin {
            declared: self.declared.clone_ref(py),
            args: self.args.clone_ref(py),
            kwargs: self.kwargs.as_ref().map(|kwargs| kwargs.clone_ref(py)),
            policy: self.policy,
        }
    }

    fn call<'a, 'py>(&'a self, py: Python<'py>) -> Call<'a, 'py> {
        let kwargs = self.kwargs.as_ref().map(|kwargs| kwargs.bind(py));
        let core = &self.declared.get().core;
        Call::new(py, core, self.args.bind(py), kwargs, self.policy)
    }

    /// Runs one step inside the scopes of the call.
    fn step<'py>(
        &self,
        py: Python<'py>,
        on_host: bool,
        body: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let framework = self.declared.get().core.options.execution;
        if on_host {
            return match ladder::host_scope(py, framework)? {
                Some(scope) => crate::framework::device::entered(&scope, body),
                None => body(),
            };
        }
        if !scope::concern(framework) {
            return body();
        }
        let call = self.call(py);
        let device = scope::device_of(py, framework, &call.slots, &call.core.options)?;
        let given = |slot: &Slot<'py>| Some(slot.value.clone());
        scope::within(py, framework, device, &call.slots, given, body)
    }

    fn finish<'py>(&self, value: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let call = self.call(value.py());
        let options = &call.core.options;
        // Memory that the caller may write to can have been shared.
        if options.execution.ready.is_some()
            && call.slots.iter().any(|slot| !slot.class.framework.immutable)
        {
            result::wait(options.execution, &value)?;
        }
        call.finish(value, Of::Whole)
    }

    /// A fresh object and what its first step gave: a value, or the end.
    fn afresh<'py>(
        &self,
        call: &Call<'_, 'py>,
        ladder: &Ladder,
        rung: Rung,
        parent: Option<&Bound<'py, AsyncSteps>>,
    ) -> Result<Fresh<'py>, Stop> {
        let py = call.py;
        let mode = match rung {
            Rung::Clear => Mode::default(),
            Rung::Host => ladder.host_mode(call).map_err(Stop::Skipped)?,
            Rung::Split => {
                let why = "a coroutine or a generator cannot be split";
                return Err(Stop::Skipped(why.to_owned()));
            }
        };
        ladder.clear(py);
        let (mut inner, watched) = call.attempt(&call.slots, &Mode { scope: None, ..mode })?;
        if let Some(parent) = parent {
            parent.borrow_mut().inner = inner.clone().unbind();
            inner = inner.call_method0(intern!(py, "__anext__"))?;
        }
        let none = (py.None(),);
        let first = || inner.call_method1(intern!(py, "send"), none);
        match self.step(py, rung == Rung::Host, first) {
            Err(error)
                if !error.is_instance_of::<PyStopIteration>(py)
                    && !error.is_instance_of::<PyStopAsyncIteration>(py) =>
            {
                let written = watched.is_written(call.core.options.input);
                Err(Failed { error, written }.into())
            }
            done => Ok((inner, done, watched.unbind())),
        }
    }

    fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.declared)?;
        visit.call(&self.args)?;
        visit.call(&self.kwargs)
    }
}

/// A coroutine, a generator, or one step of an asynchronous generator.
#[pyclass(module = "arraybridge", name = "Steps", weakref, subclass)]
pub struct Steps {
    inner: Option<Py<PyAny>>,
    origin: Origin,
    /// Whether what it yields is a result; a coroutine yields to its event loop.
    yields: bool,
    /// Whether what it returns is a result.
    gives: bool,
    /// Whether a fresh object may take over when memory runs out.
    renewable: bool,
    watched: Arrays,
    /// The asynchronous generator whose first step it is.
    parent: Option<Py<AsyncSteps>>,
    /// Whether it was moved to the host.
    on_host: bool,
    /// The rungs that are left, with the error that is raised where they end.
    ladder: Option<(Ladder, PyErr)>,
}

impl Steps {
    fn new(inner: Bound<'_, PyAny>, origin: Origin, kind: Kind, watched: Arrays) -> Steps {
        Steps {
            inner: Some(inner.unbind()),
            origin,
            yields: kind == Kind::Generator,
            gives: true,
            renewable: kind != Kind::AsyncGenerator,
            watched,
            parent: None,
            on_host: false,
            ladder: None,
        }
    }

    /// Runs one step. The object is not borrowed meanwhile: the step may come back to it.
    fn run<'py>(
        slf: &Bound<'py, Self>,
        method: &Bound<'py, PyString>,
        arguments: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let (inner, origin, on_host) = {
            let this = slf.try_borrow()?;
            let Some(inner) = &this.inner else {
                return Err(PyRuntimeError::new_err("it has been closed"));
            };
            (inner.bind(py).clone(), this.origin.copied(py), this.on_host)
        };
        let mut done = origin.step(py, on_host, || inner.call_method1(method, arguments));
        if let Err(error) = done {
            done = Steps::climb(slf, &origin, error);
        }
        let (yields, gives) = {
            let mut this = slf.try_borrow_mut()?;
            // After the first result, a fresh generator would give it once more.
            this.renewable &= !(this.yields && done.is_ok());
            (this.yields, this.gives)
        };
        match done {
            Ok(value) if yields => origin.finish(value),
            Ok(value) => Ok(value),
            Err(error) if gives && error.is_instance_of::<PyStopIteration>(py) => {
                let value = error.value(py).getattr(intern!(py, "value"))?;
                if yields && value.is_none() {
                    return Err(error);
                }
                Err(PyStopIteration::new_err((origin.finish(value)?.unbind(),)))
            }
            Err(error) => Err(error),
        }
    }

    /// Starts afresh on the next rung of the ladder, if the error says that memory ran out.
    fn climb<'py>(
        slf: &Bound<'py, Self>,
        origin: &Origin,
        error: PyErr,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let (earlier, parent, watched) = {
            let mut this = slf.try_borrow_mut()?;
            if !this.renewable || oom::framework_of(py, &error).is_none() {
                return Err(error);
            }
            let parent = this.parent.as_ref().map(|parent| parent.bind(py).clone());
            (this.ladder.take(), parent, Watched::bind(py, &this.watched))
        };
        let call = origin.call(py);
        let failed = Failed { error, written: watched.is_written(call.core.options.input) };
        drop(watched);
        let (mut ladder, first) = match earlier {
            Some((ladder, first)) if failed.written => {
                ladder.stop(py, &first)?;
                return Err(first);
            }
            Some(earlier) => earlier,
            None => {
                let Some(ladder) = Ladder::of(&call, &call.slots, &failed) else {
                    return Err(failed.error);
                };
                (ladder, failed.error)
            }
        };
        let Some(_climbing) = Climbing::start() else { return Err(first) };
        while let Some(rung) = ladder.next(py, &first) {
            match origin.afresh(&call, &ladder, rung, parent.as_ref()) {
                Ok((inner, done, watched)) => {
                    ladder.reached(&call, rung, &first)?;
                    let mut this = slf.try_borrow_mut()?;
                    this.watched = watched;
                    this.inner = Some(inner.unbind());
                    this.on_host = rung == Rung::Host;
                    if let Some(parent) = parent {
                        parent.try_borrow_mut()?.on_host = this.on_host;
                    }
                    this.ladder = Some((ladder, first));
                    return done;
                }
                Err(stop) => ladder.note(py, &first, rung, stop)?,
            }
        }
        Err(first)
    }
}

#[pymethods]
impl Steps {
    fn __next__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        Steps::run(slf, intern!(py, "send"), &PyTuple::new(py, [py.None()])?)
    }

    fn send<'py>(slf: &Bound<'py, Self>, value: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        Steps::run(slf, intern!(py, "send"), &PyTuple::new(py, [value])?)
    }

    #[pyo3(signature = (*exception))]
    fn throw<'py>(
        slf: &Bound<'py, Self>,
        exception: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Steps::run(slf, intern!(slf.py(), "throw"), exception)
    }

    fn close<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let (inner, origin, on_host) = {
            let this = slf.try_borrow()?;
            let Some(inner) = &this.inner else { return Ok(py.None().into_bound(py)) };
            (inner.bind(py).clone(), this.origin.copied(py), this.on_host)
        };
        origin.step(py, on_host, || inner.call_method0(intern!(py, "close")))
    }

    /// `cr_running`, `gi_frame` and their like are those of the function's own object.
    fn __getattr__<'py>(&self, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        delegate(self.inner.as_ref(), name)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.inner)?;
        visit.call(&self.parent)?;
        self.watched.iter().try_for_each(|(array, _)| visit.call(array))?;
        self.origin.visit(&visit)
    }

    fn __clear__(&mut self) {
        self.inner = None;
        self.parent = None;
    }
}

/// What is awaited.
#[pyclass(module = "arraybridge", name = "Coroutine", extends = Steps)]
pub struct Coroutine;

#[pymethods]
impl Coroutine {
    fn __await__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }
}

/// What is iterated.
#[pyclass(module = "arraybridge", name = "Generator", extends = Steps)]
pub struct Generator;

#[pymethods]
impl Generator {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }
}

fn delegate<'py>(
    inner: Option<&Py<PyAny>>,
    name: &Bound<'py, PyString>,
) -> PyResult<Bound<'py, PyAny>> {
    let text = name.to_string();
    let known = ["cr_", "gi_", "ag_", "__name__", "__qualname__"];
    match inner.filter(|_| known.iter().any(|prefix| text.starts_with(prefix))) {
        Some(inner) => inner.bind(name.py()).getattr(name),
        None => Err(pyo3::exceptions::PyAttributeError::new_err(format!(
            "a step of a declared function has no attribute {text:?}"
        ))),
    }
}

/// An asynchronous generator.
#[pyclass(module = "arraybridge", name = "AsyncSteps", weakref)]
pub struct AsyncSteps {
    inner: Py<PyAny>,
    origin: Origin,
    /// What its first step could write to.
    watched: Arrays,
    /// Whether its first step was asked for.
    started: bool,
    /// Whether it was moved to the host.
    on_host: bool,
}

impl AsyncSteps {
    fn awaitable<'py>(
        slf: &Bound<'py, Self>,
        method: &str,
        arguments: &Bound<'py, PyTuple>,
        gives: bool,
    ) -> PyResult<Bound<'py, Coroutine>> {
        let py = slf.py();
        let (inner, origin, watched, first, on_host) = {
            let mut this = slf.try_borrow_mut()?;
            let first = !std::mem::replace(&mut this.started, true) && method == "__anext__";
            let watched = std::mem::take(&mut this.watched);
            (this.inner.bind(py).clone(), this.origin.copied(py), watched, first, this.on_host)
        };
        let step = inner.call_method1(method, arguments)?;
        let steps = Steps::new(step, origin, Kind::AsyncGenerator, watched);
        // After the first result, a fresh generator would give it once more.
        let parent = first.then(|| slf.clone().unbind());
        coroutine(py, Steps { gives, renewable: first, parent, on_host, ..steps })
    }
}

#[pymethods]
impl AsyncSteps {
    fn __aiter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __anext__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Coroutine>> {
        AsyncSteps::awaitable(slf, "__anext__", &PyTuple::empty(slf.py()), true)
    }

    fn asend<'py>(
        slf: &Bound<'py, Self>,
        value: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, Coroutine>> {
        AsyncSteps::awaitable(slf, "asend", &PyTuple::new(slf.py(), [value])?, true)
    }

    #[pyo3(signature = (*exception))]
    fn athrow<'py>(
        slf: &Bound<'py, Self>,
        exception: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, Coroutine>> {
        AsyncSteps::awaitable(slf, "athrow", exception, true)
    }

    fn aclose<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Coroutine>> {
        AsyncSteps::awaitable(slf, "aclose", &PyTuple::empty(slf.py()), false)
    }

    fn __getattr__<'py>(&self, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        delegate(Some(&self.inner), name)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.inner)?;
        self.watched.iter().try_for_each(|(array, _)| visit.call(array))?;
        self.origin.visit(&visit)
    }
}
