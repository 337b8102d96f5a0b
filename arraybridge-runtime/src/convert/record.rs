//! Records of what was done, for those who ask, and the context's defaults.
//!
//! Nothing is recorded unless a trace is open somewhere in the process; the hot path reads one
//! counter.

use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::plan::{Access, Plan, Why};
use crate::framework::spec::DType;
use crate::interpreter::context::{ContextBlock, ContextVariable};
use crate::interpreter::shared::{Shared, call_guarded};
use crate::memory::view::Dims;

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
    /// The steps, one after the other: how the source's memory is reached, what is done with it, and
    /// how the target takes it.
    #[pyo3(get)]
    pub via: String,
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

/// What a record says of a conversion beside what its plan says.
#[derive(Debug, Default)]
pub(super) struct Description {
    pub source: &'static str,
    pub target: &'static str,
    pub dtype: String,
    pub shape: Dims<usize>,
    pub device: String,
    pub access: Access,
}

impl Description {
    /// The record of one attempt of a plan.
    pub fn record(self, plan: &Plan, attempt: usize) -> Record {
        let (_, route) = plan.attempt(attempt);
        let dtype = plan.cast.map(|dtype| dtype.name().to_owned()).unwrap_or(self.dtype);
        let elements: usize = self.shape.iter().product();
        let size = DType::from_name(&dtype).map_or(0, DType::size);
        Record {
            source: self.source,
            target: self.target,
            route: route.name(),
            how: plan.how(attempt),
            why: route.why().map(Why::text),
            via: plan.via(self.access, attempt),
            dtype,
            nbytes: elements.saturating_mul(size),
            shape: self.shape,
            device: self.device,
            ns: None,
        }
    }
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

/// Text of another module, which is never unloaded where it is a literal.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawText {
    data: *const u8,
    len: usize,
}

impl RawText {
    fn of(text: &str) -> RawText {
        RawText { data: text.as_ptr(), len: text.len() }
    }

    /// # Safety
    ///
    /// The text lives for `'a`.
    unsafe fn get<'a>(self) -> &'a str {
        // SAFETY: it was made from a `str`, which lives for `'a` by this function's contract.
        unsafe { str::from_utf8_unchecked(std::slice::from_raw_parts(self.data, self.len)) }
    }
}

/// A record as it goes from one module to another.
#[repr(C)]
struct RawRecord {
    source: RawText,
    target: RawText,
    route: RawText,
    how: RawText,
    /// Empty for no reason.
    why: RawText,
    via: RawText,
    dtype: RawText,
    device: RawText,
    shape: *const usize,
    ndim: usize,
    nbytes: usize,
    ns: u64,
}

impl RawRecord {
    fn of(record: &Record) -> RawRecord {
        RawRecord {
            source: RawText::of(record.source),
            target: RawText::of(record.target),
            route: RawText::of(record.route),
            how: RawText::of(record.how),
            why: RawText::of(record.why.unwrap_or_default()),
            via: RawText::of(&record.via),
            dtype: RawText::of(&record.dtype),
            device: RawText::of(&record.device),
            shape: record.shape.as_ptr(),
            ndim: record.shape.len(),
            nbytes: record.nbytes,
            ns: record.ns.unwrap_or_default(),
        }
    }

    /// # Safety
    ///
    /// What it refers to is alive, and the names are literals of a module.
    unsafe fn get(&self) -> Record {
        // SAFETY: what the texts and the shape refer to is alive by this function's contract.
        unsafe {
            Record {
                source: self.source.get(),
                target: self.target.get(),
                route: self.route.get(),
                how: self.how.get(),
                why: Some(self.why.get()).filter(|why: &&str| !why.is_empty()),
                via: self.via.get().to_owned(),
                dtype: self.dtype.get().to_owned(),
                device: self.device.get().to_owned(),
                shape: std::slice::from_raw_parts(self.shape, self.ndim).into(),
                nbytes: self.nbytes,
                ns: Some(self.ns),
            }
        }
    }
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
/// The conversion raises `CopyRequiredError` with the reason. Entering one object twice raises
/// `RuntimeError`.
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
