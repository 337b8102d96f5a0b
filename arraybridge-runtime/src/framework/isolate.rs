//! Shared libraries whose symbols have to be kept apart.
//!
//! TensorFlow exports LLVM's symbols without a version. PoCL's own LLVM binds to them when it is
//! loaded later, and the process crashes in the first enumeration of OpenCL devices
//! (tensorflow#119254). A library that was opened with `RTLD_DEEPBIND` before that looks its
//! symbols up in itself first. A framework's table names such libraries under `isolate`.

use pyo3::prelude::*;

use crate::framework::generated::MemoryType;
use crate::framework::spec::Framework;

/// Opens the libraries that a framework isolates, if what they collide with is there already and
/// the framework is not.
pub fn before_import(py: Python<'_>, framework: &'static Framework) {
    if let Some(isolate) = &framework.isolate
        && is_loaded(py, isolate.from)
        && !is_loaded(py, framework.module)
    {
        open(isolate.libraries);
    }
}

/// Does so for every framework: the user may import one next, without asking us.
pub fn at_start(py: Python<'_>) {
    for framework in MemoryType::ALL.map(MemoryType::framework) {
        before_import(py, framework);
    }
}

fn is_loaded(py: Python<'_>, module: &str) -> bool {
    let modules = py.import("sys").and_then(|sys| sys.getattr("modules"));
    modules.and_then(|modules| modules.contains(module)).unwrap_or(false)
}

#[cfg(target_os = "linux")]
fn open(libraries: &[&str]) {
    for library in libraries {
        let Ok(name) = std::ffi::CString::new(*library) else { continue };
        // SAFETY: the name is a C string; a library that is not there gives null, which is fine:
        // the handle is not used. Opening runs the library's initialisers, as importing the
        // framework would a moment later.
        unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_DEEPBIND) };
    }
}

#[cfg(not(target_os = "linux"))]
fn open(_libraries: &[&str]) {}
