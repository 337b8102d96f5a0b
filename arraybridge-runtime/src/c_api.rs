//! The state that all extension modules of a process share.
//!
//! Each extension module is linked with its own copy of this crate and of its statics. Users expect one set
//! of exception classes, one `Tensor` class, one default policy, one list of traces and one registry of
//! claims on memory, so all modules use those of the `arraybridge` package. Python objects are looked up in
//! `arraybridge._core`. The rest is reached through a versioned capsule there, which points to tables of C
//! functions.

use std::ffi::CStr;
use std::ptr::{self, NonNull};

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCapsule, PyCapsuleMethods};

use crate::claims::{self, ClaimTable};
use crate::convert::trace::{self, TraceTable};
use crate::cuda;
use crate::host::cast::table::{self as casts, CastTable};
use crate::interpreter::fork;
use crate::process::Lock;

/// The version of the tables' layout.
const VERSION: u32 = 5;

const NAME: &CStr = c"arraybridge._core._C_API";

/// The tables. Their functions do not unwind. Those of the traces are called by attached threads, all others
/// by any thread.
#[repr(C)]
struct Api {
    version: u32,
    traces: &'static TraceTable,
    claims: &'static ClaimTable,
    casts: &'static CastTable,
}

/// The locks that threads take which are not attached to the interpreter.
static LOCKS: [&[&dyn Lock]; 2] = [&[&claims::REGISTRY], cuda::LOCKS];

#[cfg(feature = "package")]
static OWN: Api = Api {
    version: VERSION,
    traces: trace::TABLE.own(),
    claims: claims::TABLE.own(),
    casts: &casts::own::OWN,
};

/// Adds the tables to the package's module.
///
/// # Errors
///
/// Any exception that Python raises.
#[cfg(feature = "package")]
pub fn publish(module: &Bound<'_, PyModule>) -> PyResult<()> {
    fork::watch(module.py(), &LOCKS);
    let tables = NonNull::from(&OWN).cast();
    // SAFETY: the pointer is to a static of this type, and the capsule has no destructor.
    let capsule = unsafe { PyCapsule::new_with_pointer(module.py(), tables, NAME)? };
    module.add("_C_API", capsule)
}

/// Makes this module use the package's tables if the package can be imported. Only the first call has an
/// effect. It is for modules that export no functions.
pub fn join_if_present(py: Python<'_>) {
    static JOINED: PyOnceLock<()> = PyOnceLock::new();
    JOINED.get_or_init(py, || drop(join(py)));
}

/// Makes this module use the package's tables, and returns the package's module.
///
/// # Errors
///
/// `ImportError` if the package is missing, or its tables have another version.
pub fn join(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    fork::watch(py, &LOCKS);
    let package = py.import("arraybridge._core").map_err(|cause| {
        let text = "this extension needs the arraybridge package: pip install arraybridge-rs";
        let error = PyImportError::new_err(text);
        error.set_cause(py, Some(cause));
        error
    })?;
    let capsule = package.getattr("_C_API")?.cast_into::<PyCapsule>()?;
    let tables = capsule.pointer_checked(Some(NAME))?.cast::<Api>();
    // SAFETY: a capsule of this name points to a static that starts with its version.
    let version = unsafe { ptr::addr_of!((*tables.as_ptr()).version).read() };
    if version != VERSION {
        return Err(PyImportError::new_err(format!(
            "this extension was built for version {VERSION} of arraybridge's C interface, but the \
             installed package has version {version}; rebuild the extension, or install the \
             arraybridge-rs that it was built with"
        )));
    }
    // SAFETY: a table of this version has this layout, and extension modules are never unloaded.
    let tables = unsafe { tables.as_ref() };
    trace::TABLE.join(tables.traces);
    claims::TABLE.join(tables.claims);
    #[cfg(not(feature = "casts"))]
    casts::join(tables.casts);
    Ok(package)
}
