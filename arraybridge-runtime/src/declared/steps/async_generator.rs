//! Asynchronous generators of declared functions.

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use super::origin::CallOrigin;
use super::{Coroutine, StepResults, Steps, delegate};
use crate::declared::arguments::UnboundVersions;

/// An asynchronous generator. Each of its steps is a [`Coroutine`].
#[pyclass(module = "arraybridge", name = "AsyncSteps", weakref)]
pub struct AsyncSteps {
    /// The object that the function returned.
    inner: Py<PyAny>,
    pub(super) origin: CallOrigin,
    /// The arrays that it could write to, until the first step.
    versions: UnboundVersions,
    /// True if the first step was asked for.
    started: bool,
}

impl AsyncSteps {
    pub(super) fn new(
        inner: Bound<'_, PyAny>,
        origin: CallOrigin,
        versions: UnboundVersions,
    ) -> AsyncSteps {
        AsyncSteps { inner: inner.unbind(), origin, versions, started: false }
    }

    /// Continues with another generator, which a retry of the first step created.
    pub(super) fn restart(&mut self, inner: &Bound<'_, PyAny>) {
        self.inner = inner.clone().unbind();
    }

    fn step<'py>(
        slf: &Bound<'py, Self>,
        method: &str,
        arguments: &Bound<'py, PyTuple>,
        results: StepResults,
    ) -> PyResult<Bound<'py, Coroutine>> {
        let py = slf.py();
        let (inner, origin, versions, is_first) = {
            let mut this = slf.try_borrow_mut()?;
            let is_first = !std::mem::replace(&mut this.started, true) && method == "__anext__";
            let versions = std::mem::take(&mut this.versions);
            let origin = this.origin.clone_ref(py);
            (this.inner.bind(py).clone(), origin, versions, is_first)
        };
        let step = inner.call_method1(method, arguments)?;
        let steps = Steps {
            inner: Some(step.unbind()),
            origin,
            results,
            // A new generator would yield the first result once more.
            can_restart: is_first,
            versions,
            generator: is_first.then(|| slf.clone().unbind()),
            ladder: None,
        };
        Coroutine::new(py, steps)
    }
}

#[pymethods]
impl AsyncSteps {
    fn __aiter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __anext__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Coroutine>> {
        AsyncSteps::step(slf, "__anext__", &PyTuple::empty(slf.py()), StepResults::Returned)
    }

    fn asend<'py>(
        slf: &Bound<'py, Self>,
        value: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, Coroutine>> {
        let py = slf.py();
        let mut origin = slf.try_borrow()?.origin.clone_ref(py);
        let value = origin.receive(value)?;
        slf.try_borrow_mut()?.origin = origin;
        AsyncSteps::step(slf, "asend", &PyTuple::new(py, [value])?, StepResults::Returned)
    }

    #[pyo3(signature = (*exception))]
    fn athrow<'py>(
        slf: &Bound<'py, Self>,
        exception: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, Coroutine>> {
        AsyncSteps::step(slf, "athrow", exception, StepResults::Returned)
    }

    fn aclose<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Coroutine>> {
        AsyncSteps::step(slf, "aclose", &PyTuple::empty(slf.py()), StepResults::None)
    }

    fn __getattr__<'py>(&self, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        delegate(Some(&self.inner), name)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.inner)?;
        self.versions.iter().try_for_each(|(array, _)| visit.call(array))?;
        self.origin.visit(&visit)
    }

    fn __clear__(&mut self) {
        self.origin.clear();
    }
}
