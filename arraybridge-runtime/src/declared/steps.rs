//! Coroutines and generators of declared functions.
//!
//! The device and the stream of a call are entered for each step and left before the step's end,
//! so that two tasks that take turns on one thread keep their own.

use pyo3::exceptions::{PyRuntimeError, PyStopIteration};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use super::{Call, Declared, Kind};
use crate::policy::Policy;
use crate::streams;

/// Starts what is not a plain call.
pub(super) fn start<'py>(
    declared: &Bound<'py, Declared>,
    call: Call<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = call.py;
    let inner = call.recover(&call.slots)?;
    let origin = Origin {
        declared: declared.clone().unbind(),
        args: call.args.clone().unbind(),
        kwargs: call.kwargs.clone().map(Bound::unbind),
        policy: call.policy,
    };
    let kind = declared.get().core.kind;
    if kind == Kind::AsyncGenerator {
        let steps = AsyncSteps { inner: inner.unbind(), origin };
        return Ok(Bound::new(py, steps)?.into_any());
    }
    let yields = kind == Kind::Generator;
    let steps = Steps { inner: Some(inner.unbind()), origin, yields, gives: true };
    Ok(Bound::new(py, steps)?.into_any())
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
        body: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let framework = self.declared.get().core.options.execution;
        if !streams::concern(framework) {
            return body();
        }
        let call = self.call(py);
        let device = streams::device_of(py, framework, &call.slots, &call.core.options)?;
        streams::within(py, framework, device, &call.slots, body)
    }

    fn finish<'py>(&self, value: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.call(value.py()).finish(value)
    }

    fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.declared)?;
        visit.call(&self.args)?;
        visit.call(&self.kwargs)
    }
}

/// A coroutine, a generator, or one step of an asynchronous generator.
#[pyclass(module = "arraybridge", name = "Steps", weakref)]
pub struct Steps {
    inner: Option<Py<PyAny>>,
    origin: Origin,
    /// Whether what it yields is a result; a coroutine yields to its event loop.
    yields: bool,
    /// Whether what it returns is a result.
    gives: bool,
}

impl Steps {
    /// Runs one step. The object is not borrowed meanwhile: the step may come back to it.
    fn run<'py>(
        slf: &Bound<'py, Self>,
        method: &Bound<'py, PyString>,
        arguments: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let (inner, origin, yields, gives) = {
            let this = slf.try_borrow()?;
            let Some(inner) = &this.inner else {
                return Err(PyRuntimeError::new_err("it has been closed"));
            };
            (inner.bind(py).clone(), this.origin.copied(py), this.yields, this.gives)
        };
        match origin.step(py, || inner.call_method1(method, arguments)) {
            Ok(value) if yields => origin.finish(value),
            Ok(value) => Ok(value),
            Err(error) if gives && error.is_instance_of::<PyStopIteration>(py) => {
                let value = error.value(py).getattr(intern!(py, "value"))?;
                Err(PyStopIteration::new_err((origin.finish(value)?.unbind(),)))
            }
            Err(error) => Err(error),
        }
    }
}

#[pymethods]
impl Steps {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __await__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

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
        let (inner, origin) = {
            let this = slf.try_borrow()?;
            let Some(inner) = &this.inner else { return Ok(py.None().into_bound(py)) };
            (inner.bind(py).clone(), this.origin.copied(py))
        };
        origin.step(py, || inner.call_method0(intern!(py, "close")))
    }

    /// `cr_running`, `gi_frame` and their like are those of the function's own object.
    fn __getattr__<'py>(&self, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        delegate(self.inner.as_ref(), name)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.inner)?;
        self.origin.visit(&visit)
    }

    fn __clear__(&mut self) {
        self.inner = None;
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
#[pyclass(frozen, module = "arraybridge", name = "AsyncSteps", weakref)]
pub struct AsyncSteps {
    inner: Py<PyAny>,
    origin: Origin,
}

impl AsyncSteps {
    fn awaitable<'py>(
        &self,
        py: Python<'py>,
        method: &str,
        arguments: &Bound<'py, PyTuple>,
        gives: bool,
    ) -> PyResult<Bound<'py, Steps>> {
        let step = self.inner.bind(py).call_method1(method, arguments)?;
        let origin = self.origin.copied(py);
        Bound::new(py, Steps { inner: Some(step.unbind()), origin, yields: false, gives })
    }
}

#[pymethods]
impl AsyncSteps {
    fn __aiter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __anext__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, Steps>> {
        self.awaitable(py, "__anext__", &PyTuple::empty(py), true)
    }

    fn asend<'py>(&self, value: Bound<'py, PyAny>) -> PyResult<Bound<'py, Steps>> {
        let py = value.py();
        self.awaitable(py, "asend", &PyTuple::new(py, [value])?, true)
    }

    #[pyo3(signature = (*exception))]
    fn athrow<'py>(&self, exception: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, Steps>> {
        self.awaitable(exception.py(), "athrow", exception, true)
    }

    fn aclose<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, Steps>> {
        self.awaitable(py, "aclose", &PyTuple::empty(py), false)
    }

    fn __getattr__<'py>(&self, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        delegate(Some(&self.inner), name)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.inner)?;
        self.origin.visit(&visit)
    }
}
