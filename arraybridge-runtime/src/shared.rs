//! What all extension modules of a process have in common.
//!
//! Each of them is linked with a copy of this crate, and so has statics of its own. What must be one
//! thing for the user is that of the `arraybridge` package: exception classes, `Tensor`, the
//! defaults of the context, declarations, the traces of conversions and the CUDA streams. What is a
//! Python object is looked up in `arraybridge._core`; the rest is behind a capsule there, a table of
//! C functions with a version.

use std::ffi::{CStr, c_int};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods};

use crate::record::{self, Record};
use crate::streams;

/// The table's layout; another number is another layout.
const VERSION: u32 = 1;

const NAME: &CStr = c"arraybridge._core._C_API";

/// The table. Its functions are called with the interpreter attached, and never unwind.
#[repr(C)]
pub struct Api {
    version: u32,
    /// How many traces are open.
    pub traces: AtomicUsize,
    /// How many `no_copy` scopes are open.
    pub strict: AtomicUsize,
    /// Appends a record to the traces of the context.
    push: unsafe extern "C" fn(*const RawRecord),
    /// Whether the context is within a `no_copy` scope.
    is_strict: unsafe extern "C" fn() -> c_int,
    /// The handle of this thread's stream of a device; -1 with a Python exception.
    stream: unsafe extern "C" fn(usize, *mut usize) -> c_int,
}

static OWN: Api = Api {
    version: VERSION,
    traces: AtomicUsize::new(0),
    strict: AtomicUsize::new(0),
    push,
    is_strict,
    stream,
};

/// The table in use: the module's own until it joins the package.
static TABLE: AtomicPtr<Api> = AtomicPtr::new(ptr::null_mut());

/// The table in use.
#[inline]
pub fn table() -> &'static Api {
    let table = NonNull::new(TABLE.load(Ordering::Acquire));
    // SAFETY: it is a static of an extension module, and those are never unloaded.
    table.map_or(&OWN, |table| unsafe { table.as_ref() })
}

impl Api {
    /// Appends a record to the traces of the context.
    pub fn push(&self, _py: Python<'_>, record: &Record) {
        // SAFETY: what the description refers to lives as long as the record.
        unsafe { (self.push)(&RawRecord::of(record)) }
    }

    /// Whether the context is within a `no_copy` scope.
    pub fn is_strict(&self, _py: Python<'_>) -> bool {
        // SAFETY: the interpreter is attached.
        unsafe { (self.is_strict)() != 0 }
    }

    /// The handle of this thread's stream of a device.
    ///
    /// # Errors
    ///
    /// `RuntimeError` when there is no CUDA, or CUDA reports a failure.
    pub fn stream(&self, py: Python<'_>, device: usize) -> PyResult<usize> {
        let mut handle = 0;
        // SAFETY: the handle is written to, or an exception is set.
        match unsafe { (self.stream)(device, &mut handle) } {
            0 => Ok(handle),
            _ => Err(PyErr::fetch(py)),
        }
    }
}

/// Puts the table into the package's module.
///
/// # Errors
///
/// What Python raises.
pub fn publish(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let table = NonNull::from(&OWN).cast();
    // SAFETY: the table is a static of this type, and nothing is done when the capsule goes.
    let capsule = unsafe { PyCapsule::new_with_pointer(module.py(), table, NAME)? };
    module.add("_C_API", capsule)
}

/// Has this module share what the package has, and gives back the package's module.
///
/// # Errors
///
/// `ImportError` when the package is missing, or has another version of the table.
pub fn join(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    let package = py.import("arraybridge._core").map_err(|cause| {
        let text = "this extension needs the arraybridge package: pip install arraybridge-rs";
        let error = PyImportError::new_err(text);
        error.set_cause(py, Some(cause));
        error
    })?;
    let capsule = package.getattr("_C_API")?.cast_into::<PyCapsule>()?;
    let table = capsule.pointer_checked(Some(NAME))?.cast::<Api>();
    // SAFETY: a capsule of this name holds a table that begins with its version and is never freed.
    let version = unsafe { ptr::addr_of!((*table.as_ptr()).version).read() };
    if version != VERSION {
        return Err(PyImportError::new_err(format!(
            "this extension was built for version {VERSION} of arraybridge's interface, and the \
             installed package has version {version}: install the arraybridge-rs that it was built \
             with, or build it again"
        )));
    }
    TABLE.store(table.as_ptr(), Ordering::Release);
    Ok(package)
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
        // SAFETY: it was made from a `str`, and the caller's promise.
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
        // SAFETY: the caller's promise.
        unsafe {
            Record {
                source: self.source.get(),
                target: self.target.get(),
                route: self.route.get(),
                how: self.how.get(),
                why: Some(self.why.get()).filter(|why: &&str| !why.is_empty()),
                dtype: self.dtype.get().to_owned(),
                device: self.device.get().to_owned(),
                shape: std::slice::from_raw_parts(self.shape, self.ndim).into(),
                nbytes: self.nbytes,
                ns: Some(self.ns),
            }
        }
    }
}

/// Runs the body of one of the table's functions; a panic does not leave the module.
fn guarded<T>(default: T, body: impl FnOnce(Python<'_>) -> T) -> T {
    let body = std::panic::AssertUnwindSafe(|| Python::attach(body));
    std::panic::catch_unwind(body).unwrap_or(default)
}

unsafe extern "C" fn push(record: *const RawRecord) {
    // SAFETY: the caller describes a living record of its own.
    let record = unsafe { (*record).get() };
    guarded((), |py| record::append(py, record));
}

unsafe extern "C" fn is_strict() -> c_int {
    guarded(0, |py| c_int::from(record::is_strict(py)))
}

unsafe extern "C" fn stream(device: usize, handle: *mut usize) -> c_int {
    guarded(-1, |py| match streams::own_handle(device) {
        Ok(found) => {
            // SAFETY: the caller's variable.
            unsafe { handle.write(found) };
            0
        }
        Err(error) => {
            error.restore(py);
            -1
        }
    })
}
