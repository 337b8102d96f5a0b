//! The state that all extension modules of a process share.
//!
//! Each extension module is linked with its own copy of this crate and of its statics. Users expect one set
//! of exception classes, one `Tensor` class, one default policy, one list of traces and one registry of
//! claims on memory, so all modules use those of the `arraybridge` package. Python objects are looked up in
//! `arraybridge._core`. The rest is reached through a versioned capsule there, which points to tables of C
//! functions.

use std::ffi::CStr;
use std::ptr;

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCapsule, PyCapsuleMethods};

use crate::convert::trace::{self, TraceTable};
use crate::cuda;
use crate::interpreter::once::Once;
use crate::interpreter::{self, fork};
use arraybridge_host::cast::table::{self as casts, CastTable};
use arraybridge_host::process::Lock;
use arraybridge_tensor::claims::{self, ClaimTable};

/// The version of the tables, and of the parts of the package that extensions call. Extensions that were built for an
/// older one are accepted, as long as [`MAJOR`] is the same: a table that gains an entry at its end, or a part that
/// extensions call from then on, raises [`MINOR`], and any other change raises [`MAJOR`].
const MAJOR: u32 = 9;
const MINOR: u32 = 1;

const NAME: &CStr = c"arraybridge._core._C_API";

/// The tables. Their functions do not unwind. Those of the traces are called by attached threads, all others
/// by any thread.
#[repr(C)]
struct Api {
    major: u32,
    minor: u32,
    traces: &'static TraceTable,
    claims: &'static ClaimTable,
    casts: &'static CastTable,
}

/// The locks that threads take which are not attached to the interpreter.
static LOCKS: [&[&dyn Lock]; 2] = [&[&claims::REGISTRY], cuda::LOCKS];

#[cfg(feature = "casts")]
static OWN: Api = Api {
    major: MAJOR,
    minor: MINOR,
    traces: trace::TABLE.own(),
    claims: claims::TABLE.own(),
    casts: &casts::own::OWN,
};

/// Adds the tables to the package's module.
#[cfg(feature = "casts")]
pub fn publish(module: &Bound<'_, PyModule>) -> PyResult<()> {
    fork::watch(module.py(), &LOCKS);
    let tables = ptr::NonNull::from(&OWN).cast();
    // SAFETY: the pointer is to a static of this type, and the capsule has no destructor.
    let capsule = unsafe { PyCapsule::new_with_pointer(module.py(), tables, NAME)? };
    module.add("_C_API", capsule)
}

/// Returns whether an extension finds in the package's tables what it was built for.
fn is_compatible(built_for: (u32, u32), package_has: (u32, u32)) -> bool {
    built_for.0 == package_has.0 && built_for.1 <= package_has.1
}

/// Makes this module use the package's tables if the package can be imported. Only the first call has an
/// effect. It is for modules that export no functions.
pub fn join_if_present(py: Python<'_>) {
    static JOINED: PyOnceLock<()> = PyOnceLock::new();
    JOINED.once(py, || drop(join(py)));
}

/// Makes this module use the package's tables.
///
/// # Errors
///
/// `ImportError` if the package is missing, or its tables have another version.
pub fn join(py: Python<'_>) -> PyResult<()> {
    fork::watch(py, &LOCKS);
    let package = interpreter::package::core(py).map_err(|cause| {
        let text = "this extension needs the arraybridge package: pip install arraybridge-rs";
        let error = PyImportError::new_err(text);
        error.set_cause(py, Some(cause));
        error
    })?;
    let capsule = package.getattr("_C_API")?.cast_into::<PyCapsule>()?;
    let tables = capsule.pointer_checked(Some(NAME))?.cast::<Api>();
    // SAFETY: a capsule of this name points to a static that starts with its version.
    let package_has = unsafe {
        (
            ptr::addr_of!((*tables.as_ptr()).major).read(),
            ptr::addr_of!((*tables.as_ptr()).minor).read(),
        )
    };
    if !is_compatible((MAJOR, MINOR), package_has) {
        let (major, minor) = package_has;
        return Err(PyImportError::new_err(format!(
            "this extension was built for version {MAJOR}.{MINOR} of arraybridge's C interface, but the \
             installed package has version {major}.{minor}; rebuild the extension, or install the \
             arraybridge-rs that it was built with"
        )));
    }
    // SAFETY: a table of this version begins with this layout, and extension modules are never unloaded.
    let tables = unsafe { tables.as_ref() };
    trace::TABLE.join(tables.traces);
    claims::TABLE.join(tables.claims);
    #[cfg(not(feature = "casts"))]
    casts::join(tables.casts);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::is_compatible;

    #[test]
    fn an_extension_is_accepted_by_a_package_whose_tables_begin_with_its_own() {
        for (built_for, package_has, accepted) in [
            ((6, 1), (6, 1), true),
            ((6, 1), (6, 2), true),
            ((6, 2), (6, 1), false),
            ((6, 0), (7, 0), false),
            ((6, 0), (5, 9), false),
        ] {
            assert_eq!(
                is_compatible(built_for, package_has),
                accepted,
                "{built_for:?} {package_has:?}"
            );
        }
    }
}
