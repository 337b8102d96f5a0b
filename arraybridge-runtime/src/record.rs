//! Records of what was done, for those who ask, and the context's defaults.
//!
//! Nothing is recorded unless a trace is open somewhere in the process; the hot path reads one
//! counter.

use std::sync::atomic::Ordering;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PyTuple};

use crate::shared;
use crate::view::Dims;

/// One conversion: its ends, its route, and the reason of a copy.
#[pyclass(frozen, module = "arraybridge", name = "Record")]
#[derive(Clone, Debug)]
pub struct Record {
    /// The source framework.
    #[pyo3(get)]
    pub source: &'static str,
    /// The target framework.
    #[pyo3(get)]
    pub target: &'static str,
    /// `"keep"`, `"share"`, `"move"` or `"copy"`.
    #[pyo3(get)]
    pub route: &'static str,
    /// How it is done, in a word or two.
    #[pyo3(get)]
    pub how: &'static str,
    /// Why memory is copied; `None` if it is not.
    #[pyo3(get)]
    pub why: Option<&'static str>,
    /// The element type of the result.
    #[pyo3(get)]
    pub dtype: String,
    /// The bytes of the result's elements.
    #[pyo3(get)]
    pub nbytes: usize,
    /// Elements along each axis.
    pub shape: Dims<usize>,
    /// `"host"` or `"accelerator:0"`, where the result is.
    #[pyo3(get)]
    pub device: String,
    /// Nanoseconds that it took; `None` in an explanation.
    #[pyo3(get)]
    pub ns: Option<u64>,
}

#[pymethods]
impl Record {
    /// Elements along each axis.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.shape.iter())
    }

    fn __str__(&self) -> String {
        let Record { source, target, route, how, dtype, device, .. } = self;
        let mut text = format!("{source} -> {target}: {route} ({how}), {dtype}");
        text.push_str(&format!("{:?}, {} bytes, on {device}", self.shape.as_slice(), self.nbytes));
        if let Some(why) = self.why {
            text.push_str(&format!("; copied because {why}"));
        }
        if let Some(ns) = self.ns {
            text.push_str(&format!("; took {:.1} us", ns as f64 / 1e3));
        }
        text
    }

    fn __repr__(&self) -> String {
        format!("<{}>", self.__str__())
    }
}

/// Whether somebody, in any context, asked for records.
#[inline]
pub fn is_tracing() -> bool {
    shared::table().traces.load(Ordering::Relaxed) != 0
}

fn variable<'py>(
    py: Python<'py>,
    cell: &'static PyOnceLock<Py<PyAny>>,
    name: &str,
) -> PyResult<&'py Bound<'py, PyAny>> {
    let make = || -> PyResult<Py<PyAny>> {
        let class = py.import("contextvars")?.getattr("ContextVar")?;
        let default = pyo3::types::PyDict::new(py);
        default.set_item("default", py.None())?;
        Ok(class.call((name,), Some(&default))?.unbind())
    };
    Ok(cell.get_or_try_init(py, make)?.bind(py))
}

fn trace_variable(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static CELL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    variable(py, &CELL, "arraybridge.trace")
}

fn strict_variable(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static CELL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    variable(py, &CELL, "arraybridge.no_copy")
}

/// Appends a record to every trace of the current context.
pub fn push(py: Python<'_>, record: Record, took: Duration) {
    shared::table().push(py, &Record { ns: Some(took.as_nanos() as u64), ..record });
}

/// The same for the traces of this module's class.
pub(crate) fn append(py: Python<'_>, record: Record) {
    // A conversion that was done is not failed for its record.
    let _ = (|| -> PyResult<()> {
        let traces = trace_variable(py)?.call_method0("get")?;
        if let Ok(traces) = traces.cast::<PyTuple>() {
            let record = Py::new(py, record)?;
            for trace in traces {
                trace.cast::<PyList>()?.append(&record)?;
            }
        }
        Ok(())
    })();
}

/// The `copy` argument, or what the context says where none was given.
#[inline]
pub fn copy_default(py: Python<'_>, copy: Option<bool>) -> Option<bool> {
    match copy {
        None => {
            let table = shared::table();
            let strict = table.strict.load(Ordering::Relaxed) != 0 && table.is_strict(py);
            strict.then_some(false)
        }
        copy => copy,
    }
}

/// Whether the context is within a scope of this module's class.
pub(crate) fn is_strict(py: Python<'_>) -> bool {
    let strict = strict_variable(py).and_then(|v| v.call_method0("get"));
    strict.is_ok_and(|v| v.is_truthy().unwrap_or(false))
}

/// A context manager that sets a context variable and counts that it is open.
struct Scope {
    token: Py<PyAny>,
}

/// Collects the records of all conversions in the context: `with trace() as records`.
///
/// Traces nest: an outer one sees what an inner one sees. Other threads, and other asyncio tasks
/// that were started before, have contexts of their own.
///
/// Examples
/// --------
/// >>> import numpy, arraybridge
/// >>> with arraybridge.trace() as records:
/// ...     _ = arraybridge.convert(numpy.zeros(3), "numpy", copy=True)
/// >>> [record.route for record in records]
/// ['copy']
#[pyclass(module = "arraybridge", name = "trace")]
#[derive(Default)]
pub struct Trace(Option<Scope>);

#[pymethods]
impl Trace {
    #[new]
    fn new() -> Trace {
        Trace(None)
    }

    fn __enter__<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        if self.0.is_some() {
            return Err(pyo3::exceptions::PyRuntimeError::new_err(
                "this trace is already open; make another one with arraybridge.trace()",
            ));
        }
        let variable = trace_variable(py)?;
        let list = PyList::empty(py);
        let outer = variable.call_method0("get")?;
        let traces = match outer.cast::<PyTuple>() {
            Ok(outer) => {
                let traces: Vec<_> = outer.iter().chain([list.clone().into_any()]).collect();
                PyTuple::new(py, traces)?
            }
            Err(_) => PyTuple::new(py, [&list])?,
        };
        let token = variable.call_method1("set", (traces,))?.unbind();
        shared::table().traces.fetch_add(1, Ordering::Relaxed);
        self.0 = Some(Scope { token });
        Ok(list)
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&mut self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        if let Some(Scope { token }) = self.0.take() {
            shared::table().traces.fetch_sub(1, Ordering::Relaxed);
            trace_variable(py)?.call_method1("reset", (token,))?;
        }
        Ok(())
    }
}

/// Within it, conversions that name no `copy` share memory or raise: `with no_copy():`.
///
/// Raises, from the conversion, CopyRequiredError with the reason.
///
/// Examples
/// --------
/// >>> import numpy, arraybridge
/// >>> with arraybridge.no_copy():
/// ...     zeros = arraybridge.convert(numpy.zeros(3), "numpy")
#[pyclass(module = "arraybridge", name = "no_copy")]
#[derive(Default)]
pub struct NoCopy(Option<Scope>);

#[pymethods]
impl NoCopy {
    #[new]
    fn new() -> NoCopy {
        NoCopy(None)
    }

    fn __enter__(&mut self, py: Python<'_>) -> PyResult<()> {
        if self.0.is_some() {
            return Err(pyo3::exceptions::PyRuntimeError::new_err(
                "this scope is already open; make another one with arraybridge.no_copy()",
            ));
        }
        let token = strict_variable(py)?.call_method1("set", (true,))?.unbind();
        shared::table().strict.fetch_add(1, Ordering::Relaxed);
        self.0 = Some(Scope { token });
        Ok(())
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&mut self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        if let Some(Scope { token }) = self.0.take() {
            shared::table().strict.fetch_sub(1, Ordering::Relaxed);
            strict_variable(py)?.call_method1("reset", (token,))?;
        }
        Ok(())
    }
}
