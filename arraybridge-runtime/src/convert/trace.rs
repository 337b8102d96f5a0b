//! The context's traces and `no_copy` blocks.
//!
//! Nothing is recorded unless a trace is open somewhere in the process; the hot path reads one
//! counter.

use crate::interpreter::once::Once;
use crate::interpreter::package;
use std::cell::RefCell;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyTuple};

use super::record::Record;
use crate::interpreter::context::ContextVariable;
use crate::interpreter::error::attempt;
use crate::interpreter::function_code;
use arraybridge_host::process::Shared;

/// Returns whether somebody, in any context, asked for records.
#[inline]
pub fn is_tracing() -> bool {
    TABLE.get().traces.load(Ordering::Relaxed) != 0
}

/// The moment when something started, in nanoseconds since 1970. Moments of one process are in
/// order, whatever happens to the system's clock, so that spans nest.
pub type Moment = u64;

/// The present moment, if somebody, in any context, asked for records.
#[inline]
pub fn start() -> Option<Moment> {
    is_tracing().then(now)
}

/// The present moment.
#[cold]
pub fn now() -> Moment {
    (TABLE.get().now)()
}

/// The kind of a record.
#[derive(Clone, Copy)]
enum RecordKind {
    /// A conversion, or another step that makes an array.
    Conversion = 0,
    /// A call or a rung, in which there may be conversions.
    Span = 1,
}

/// The open traces of the context, the outermost first, each with a list for each [`RecordKind`].
static TRACES: ContextVariable = ContextVariable::new("arraybridge.trace");

/// The open traces of all threads, by their addresses.
static EVERYWHERE: PyOnceLock<Py<PyDict>> = PyOnceLock::new();

fn everywhere(py: Python<'_>) -> &Bound<'_, PyDict> {
    EVERYWHERE.once(py, || PyDict::new(py).unbind()).bind(py)
}

/// The context variable that says whether a `no_copy` block is open.
static STRICT: ContextVariable = ContextVariable::new("arraybridge.no_copy");

/// Puts into the package's module what `arraybridge._blocks` and `arraybridge.tracing` open and close.
pub fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("_TRACES", TRACES.get(py)?)?;
    module.add("_EVERYWHERE", everywhere(py))?;
    module.add("_NO_COPY", STRICT.get(py)?)
}

/// Counts traces and `no_copy` blocks that were opened; those that were closed are negative.
pub fn count_blocks(traces: isize, strict: isize) {
    let table = TABLE.get();
    table.traces.fetch_add(traces as usize, Ordering::Relaxed);
    table.strict.fetch_add(strict as usize, Ordering::Relaxed);
}

/// The state that the traces and the `no_copy` scopes of all extension modules have in common.
#[repr(C)]
pub struct TraceTable {
    /// The number of open traces.
    traces: AtomicUsize,
    /// The number of open `no_copy` scopes.
    strict: AtomicUsize,
    /// The present moment.
    now: extern "C" fn() -> Moment,
    /// Returns whether the context is within a `no_copy` scope.
    is_strict: unsafe extern "C" fn() -> c_int,
}

/// The table in use.
pub static TABLE: Shared<TraceTable> = Shared::new(&OWN);

static OWN: TraceTable = TraceTable {
    traces: AtomicUsize::new(0),
    strict: AtomicUsize::new(0),
    now: raw_now,
    is_strict: raw_is_strict,
};

impl TraceTable {
    fn is_strict(&self, _py: Python<'_>) -> bool {
        // SAFETY: the interpreter is attached.
        unsafe { (self.is_strict)() != 0 }
    }
}

extern "C" fn raw_now() -> Moment {
    static ANCHOR: OnceLock<(Instant, Duration)> = OnceLock::new();
    let since_1970 = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (instant, anchor) = ANCHOR.get_or_init(|| (Instant::now(), since_1970()));
    (*anchor + instant.elapsed()).as_nanos() as Moment
}

unsafe extern "C" fn raw_is_strict() -> c_int {
    let is_strict = || Python::attach(|py| c_int::from(is_strict(py)));
    catch_unwind(AssertUnwindSafe(is_strict)).unwrap_or(0)
}

/// Appends the record of what was done since `start` to every trace of the current context.
pub fn push(py: Python<'_>, record: Record, start: Moment) {
    push_as(py, RecordKind::Conversion, record, start);
}

/// The same for a call or a rung.
pub fn push_span(py: Python<'_>, span: Record, start: Moment) {
    push_as(py, RecordKind::Span, span, start);
}

fn push_as(py: Python<'_>, kind: RecordKind, record: Record, start: Moment) {
    let record = record.ended(start);
    match ptr::eq(TABLE.get(), &OWN) {
        true => append(py, record, kind),
        // A conversion that was done is not failed for its record.
        false => drop(attempt(py, hand_over(py, kind, &record))),
    }
}

/// Gives a record to the package, whose traces take those of all extension modules and have one class for them.
#[cold]
fn hand_over(py: Python<'_>, kind: RecordKind, record: &Record) -> PyResult<()> {
    let package = package::core(py)?;
    let record = package.getattr("Record")?.call1(record.values(py)?)?;
    let is_span = matches!(kind, RecordKind::Span);
    package.getattr("_push")?.call1((record, py.None(), is_span)).map(drop)
}

impl Record {
    /// The record of what began at `start` and has ended now.
    fn ended(self, start: Moment) -> Record {
        Record { start: Some(start), ns: Some(now().saturating_sub(start)), ..self }
    }
}

thread_local! {
    /// The records of a tree's leaves, while it is converted by this thread.
    static GATHERED: RefCell<Option<Vec<Record>>> = const { RefCell::new(None) };
}

/// Runs `body`, and keeps the records of its conversions from the traces. Gives them back, with the beginning; without
/// a trace, there are none.
pub fn gathered<T>(
    body: impl FnOnce() -> PyResult<T>,
) -> PyResult<(T, Vec<Record>, Option<Moment>)> {
    let start = start();
    struct Outer(Option<Vec<Record>>);

    impl Drop for Outer {
        fn drop(&mut self) {
            GATHERED.set(self.0.take());
        }
    }

    // Also after a panic.
    let _outer = Outer(GATHERED.replace(Some(Vec::new())));
    let result = body()?;
    Ok((result, GATHERED.take().unwrap_or_default(), start))
}

/// Appends a record that was made of others, or by another module, to every trace of the current context. One that has
/// not ended ends now.
pub fn push_made(py: Python<'_>, record: Record, start: Option<Moment>, is_span: bool) {
    let kind = if is_span { RecordKind::Span } else { RecordKind::Conversion };
    let record = match start {
        Some(start) => record.ended(start),
        None => record,
    };
    append(py, record, kind);
}

/// Appends a record to the traces of this module's class.
fn append(py: Python<'_>, record: Record, kind: RecordKind) {
    let record = match kind {
        RecordKind::Conversion => GATHERED.with_borrow_mut(|gathered| match gathered {
            Some(records) => {
                records.push(record);
                None
            }
            None => Some(record),
        }),
        RecordKind::Span => Some(record),
    };
    let Some(record) = record else { return };
    // A conversion that was done is not failed for its record.
    let _ = (|| -> PyResult<()> {
        let mut traces = Vec::new();
        if let Ok(own) = TRACES.get(py)?.call_method0("get")?.cast::<PyTuple>() {
            traces.extend(own);
        }
        traces.extend(everywhere(py).values());
        if traces.is_empty() {
            return Ok(());
        }
        // An observer runs code of its own, so the record is complete before.
        let record = Py::new(py, located(py, record))?;
        traces.iter().try_for_each(|trace| {
            let to = trace.get_item(kind as usize)?;
            match to.cast_exact::<PyList>() {
                Ok(list) => list.append(&record),
                Err(_) => to.call_method1(intern!(py, "append"), (&record,)).map(drop),
            }
        })
    })();
}

/// Adds the process, the thread and the caller, which are known while nobody else has run.
fn located(py: Python<'_>, record: Record) -> Record {
    let thread = py.import("_thread").and_then(|module| module.call_method0("get_native_id"));
    let (file, line) = caller(py).map_or((None, None), |(file, line)| (Some(file), line));
    Record {
        pid: Some(std::process::id()),
        thread: thread.and_then(|thread| thread.extract()).ok(),
        file,
        line,
        ..record
    }
}

/// The file and the line of the innermost Python code that is not part of this package.
fn caller(py: Python<'_>) -> PyResult<(String, Option<u32>)> {
    let mut frame = py.import("sys")?.call_method0("_getframe")?;
    loop {
        let outer = frame.getattr(intern!(py, "f_back"))?;
        // CPython returns None with an exception set where it finds no memory.
        if let Some(error) = PyErr::take(py) {
            return Err(error);
        }
        if !function_code::is_inside(&frame)? || outer.is_none() {
            let code = frame.getattr(intern!(py, "f_code"))?;
            let file = code.getattr("co_filename")?;
            return Ok((file.extract()?, frame.getattr(intern!(py, "f_lineno"))?.extract()?));
        }
        frame = outer;
    }
}

/// The `copy` argument, or what the context and the process say where none was given.
#[inline]
pub fn copy_default(py: Python<'_>, copy: Option<bool>) -> Option<bool> {
    if copy.is_some() {
        return copy;
    }
    let table = TABLE.get();
    let strict = table.strict.load(Ordering::Relaxed) != 0 && table.is_strict(py);
    if strict { Some(false) } else { set_by_configure().filter(|copies| *copies) }
}

/// The `copy` argument, or true where the process says that everything is copied.
#[inline]
pub fn or_always_copy(py: Python<'_>, copy: Option<bool>) -> Option<bool> {
    let always = || set_by_configure() == Some(true) && copy_default(py, None) == Some(true);
    copy.or_else(|| always().then_some(true))
}

/// The setting for copies in the conversions of the process: [`AUTO`], [`NEVER`] or [`ALWAYS`].
static COPY: AtomicU8 = AtomicU8::new(AUTO);

const AUTO: u8 = 0;
const NEVER: u8 = 1;
const ALWAYS: u8 = 2;

/// The `copy` argument of the process.
#[inline]
pub fn set_by_configure() -> Option<bool> {
    match COPY.load(Ordering::Relaxed) {
        NEVER => Some(false),
        ALWAYS => Some(true),
        _ => None,
    }
}

/// Sets the `copy` argument of the process.
pub fn set_copy(copy: Option<bool>) {
    let strict = &TABLE.get().strict;
    let new = match copy {
        Some(false) => NEVER,
        Some(true) => ALWAYS,
        None => AUTO,
    };
    // Counted like a scope that everybody is in.
    match (COPY.swap(new, Ordering::Relaxed) == NEVER, new == NEVER) {
        (false, true) => drop(strict.fetch_add(1, Ordering::Relaxed)),
        (true, false) => drop(strict.fetch_sub(1, Ordering::Relaxed)),
        _ => {}
    }
}

/// Returns whether the context is within a scope of this module's class, or the process forbids
/// copies.
fn is_strict(py: Python<'_>) -> bool {
    let strict = || STRICT.get(py).and_then(|v| v.call_method0("get"));
    set_by_configure() == Some(false) || strict().is_ok_and(|v| v.is_truthy().unwrap_or(false))
}
