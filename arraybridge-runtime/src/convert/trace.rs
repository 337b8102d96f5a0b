//! The context's traces and `no_copy` blocks.
//!
//! Nothing is recorded unless a trace is open somewhere in the process; the hot path reads one
//! counter.

use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::record::{RawRecord, Record};
use crate::interpreter::context::{ContextBlock, ContextVariable};
use crate::interpreter::shared::{Shared, call_guarded};

/// Whether somebody, in any context, asked for records.
#[inline]
pub fn is_tracing() -> bool {
    TABLE.get().traces.load(Ordering::Relaxed) != 0
}

/// The lists of the open traces, the outermost first.
static TRACES: ContextVariable = ContextVariable::new("arraybridge.trace");

/// Whether a `no_copy` block is open.
static STRICT: ContextVariable = ContextVariable::new("arraybridge.no_copy");

/// What the traces and the `no_copy` scopes of all extension modules have in common.
#[repr(C)]
pub struct TraceTable {
    /// How many traces are open.
    traces: AtomicUsize,
    /// How many `no_copy` scopes are open.
    strict: AtomicUsize,
    /// Appends a record to the traces of the context.
    push: unsafe extern "C" fn(*const RawRecord),
    /// Whether the context is within a `no_copy` scope.
    is_strict: unsafe extern "C" fn() -> c_int,
}

/// The table in use.
pub static TABLE: Shared<TraceTable> = Shared::new(&OWN);

static OWN: TraceTable = TraceTable {
    traces: AtomicUsize::new(0),
    strict: AtomicUsize::new(0),
    push: raw_push,
    is_strict: raw_is_strict,
};

impl TraceTable {
    fn push(&self, _py: Python<'_>, record: &Record) {
        // SAFETY: what the description refers to lives as long as the record.
        unsafe { (self.push)(&RawRecord::of(record)) }
    }

    fn is_strict(&self, _py: Python<'_>) -> bool {
        // SAFETY: the interpreter is attached.
        unsafe { (self.is_strict)() != 0 }
    }
}

unsafe extern "C" fn raw_push(record: *const RawRecord) {
    // SAFETY: the caller describes a living record of its own.
    let record = unsafe { (*record).get() };
    call_guarded((), |py| append(py, record));
}

unsafe extern "C" fn raw_is_strict() -> c_int {
    call_guarded(0, |py| c_int::from(is_strict(py)))
}

/// Appends a record to every trace of the current context.
pub fn push(py: Python<'_>, record: Record, took: Duration) {
    TABLE.get().push(py, &Record { ns: Some(took.as_nanos() as u64), ..record });
}

/// The same for the traces of this module's class.
fn append(py: Python<'_>, record: Record) {
    // A conversion that was done is not failed for its record.
    let _ = (|| -> PyResult<()> {
        let traces = TRACES.get(py)?.call_method0("get")?;
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
            let table = TABLE.get();
            let strict = table.strict.load(Ordering::Relaxed) != 0 && table.is_strict(py);
            strict.then_some(false)
        }
        copy => copy,
    }
}

/// Whether the context is within a scope of this module's class.
fn is_strict(py: Python<'_>) -> bool {
    let strict = STRICT.get(py).and_then(|v| v.call_method0("get"));
    strict.is_ok_and(|v| v.is_truthy().unwrap_or(false))
}

/// Collects the records of all conversions in the context: `with trace() as records`.
///
/// Traces nest: an outer trace also collects the records of an inner one. Other threads, and
/// asyncio tasks that were started before, have contexts of their own.
///
/// Raises `RuntimeError` when one object is entered twice.
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
pub struct Trace(ContextBlock);

#[pymethods]
impl Trace {
    #[new]
    fn new() -> Trace {
        Trace::default()
    }

    fn __enter__<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let variable = TRACES.get(py)?;
        let list = PyList::empty(py);
        let outer = variable.call_method0("get")?;
        let traces = match outer.cast::<PyTuple>() {
            Ok(outer) => {
                let traces: Vec<_> = outer.iter().chain([list.clone().into_any()]).collect();
                PyTuple::new(py, traces)?
            }
            Err(_) => PyTuple::new(py, [&list])?,
        };
        self.0.enter(variable, traces)?;
        TABLE.get().traces.fetch_add(1, Ordering::Relaxed);
        Ok(list)
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&mut self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        if self.0.is_open() {
            TABLE.get().traces.fetch_sub(1, Ordering::Relaxed);
        }
        self.0.exit(TRACES.get(py)?)
    }
}

/// Makes conversions without a `copy` argument share memory or raise: `with no_copy():`.
///
/// The conversion raises `CopyRequiredError` with the reason. That is so for `convert`, and for the
/// arguments and the results of declared functions, `input_dtype` included. Stacking, joining parts, the
/// dtype policy of a result, and what NumPy copies to see a data frame as an array are not conversions,
/// and still copy. Entering one object twice raises `RuntimeError`.
///
/// Examples
/// --------
/// >>> import numpy, arraybridge
/// >>> with arraybridge.no_copy():
/// ...     zeros = arraybridge.convert(numpy.zeros(3), "numpy")
#[pyclass(module = "arraybridge", name = "no_copy")]
#[derive(Default)]
pub struct NoCopy(ContextBlock);

#[pymethods]
impl NoCopy {
    #[new]
    fn new() -> NoCopy {
        NoCopy::default()
    }

    fn __enter__(&mut self, py: Python<'_>) -> PyResult<()> {
        self.0.enter(STRICT.get(py)?, true)?;
        TABLE.get().strict.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&mut self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        if self.0.is_open() {
            TABLE.get().strict.fetch_sub(1, Ordering::Relaxed);
        }
        self.0.exit(STRICT.get(py)?)
    }
}
