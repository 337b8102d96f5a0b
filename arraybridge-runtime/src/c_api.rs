//! What all extension modules of a process have in common.
//!
//! Each of them is linked with a copy of this crate, and so has statics of its own. What must be one
//! thing for the user is that of the `arraybridge` package: exception classes, `Tensor`, the
//! defaults of the context, declarations, the traces of conversions, the CUDA streams, and the claims
//! on memory. What is a Python object is looked up in `arraybridge._core`; the rest is behind a capsule
//! there, which points to the rooms' tables of C functions and has a version.

use std::ffi::CStr;
use std::ptr::{self, NonNull};

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCapsule, PyCapsuleMethods};

use crate::claims::{self, ClaimTable};
use crate::convert::record::{self, TraceTable};
use crate::cuda::streams::{self, StreamTable};

/// The layout of the tables; another number is another layout.
const VERSION: u32 = 3;

const NAME: &CStr = c"arraybridge._core._C_API";

/// The tables. Their functions never unwind. Those of the claims may be called by any thread, all
/// others by one that is attached to the interpreter.
#[repr(C)]
struct Api {
    version: u32,
    traces: &'static TraceTable,
    streams: &'static StreamTable,
    claims: &'static ClaimTable,
}

static OWN: Api = Api {
    version: VERSION,
    traces: record::TABLE.own(),
    streams: streams::TABLE.own(),
    claims: claims::TABLE.own(),
};

/// Puts the tables into the package's module.
///
/// # Errors
///
/// What Python raises.
pub fn publish(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let tables = NonNull::from(&OWN).cast();
    // SAFETY: it is a static of this type, and nothing is done when the capsule goes.
    let capsule = unsafe { PyCapsule::new_with_pointer(module.py(), tables, NAME)? };
    module.add("_C_API", capsule)
}

/// Has this module share what the package has, where the package can be imported; the first call counts.
/// It is for modules that export no functions.
pub fn join_if_present(py: Python<'_>) {
    static JOINED: PyOnceLock<()> = PyOnceLock::new();
    JOINED.get_or_init(py, || drop(join(py)));
}

/// Has this module share what the package has, and gives back the package's module.
///
/// # Errors
///
/// `ImportError` when the package is missing, or has another version of the tables.
pub fn join(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    let package = py.import("arraybridge._core").map_err(|cause| {
        let text = "this extension needs the arraybridge package: pip install arraybridge-rs";
        let error = PyImportError::new_err(text);
        error.set_cause(py, Some(cause));
        error
    })?;
    let capsule = package.getattr("_C_API")?.cast_into::<PyCapsule>()?;
    let tables = capsule.pointer_checked(Some(NAME))?.cast::<Api>();
    // SAFETY: a capsule of this name points to a static that begins with its version.
    let version = unsafe { ptr::addr_of!((*tables.as_ptr()).version).read() };
    if version != VERSION {
        return Err(PyImportError::new_err(format!(
            "this extension was built for version {VERSION} of arraybridge's interface, and the \
             installed package has version {version}: install the arraybridge-rs that it was built \
             with, or build it again"
        )));
    }
    // SAFETY: the version says that it has this layout, and extension modules are never unloaded.
    let Api { traces, streams, claims, .. } = unsafe { tables.as_ref() };
    record::TABLE.join(traces);
    streams::TABLE.join(streams);
    claims::TABLE.join(claims);
    Ok(package)
}
