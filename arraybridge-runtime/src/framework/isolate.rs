//! Shared libraries with colliding symbols.
//!
//! TensorFlow exports LLVM's symbols without a version. PoCL's own LLVM binds to them if it is loaded
//! later, and the process crashes when OpenCL devices are listed for the first time
//! (tensorflow#119254). A library that is opened with `RTLD_DEEPBIND` before this looks up its symbols
//! in itself first. A framework's table lists such libraries under `isolate`.

use pyo3::prelude::*;

use crate::framework::generated::MemoryType;
use crate::framework::spec::Framework;

/// Opens the libraries that a framework isolates, if the module that they collide with has been
/// imported and the framework has not.
pub fn before_import(py: Python<'_>, framework: &'static Framework) {
    if let Some(isolate) = &framework.isolate
        && is_present(py, isolate.from)
        && !is_present(py, framework.module)
    {
        open(isolate.libraries);
    }
}

/// Does the same for every framework: the program may import one next.
pub fn at_start(py: Python<'_>) {
    for framework in MemoryType::ALL.map(MemoryType::framework) {
        before_import(py, framework);
    }
}

fn is_present(py: Python<'_>, module: &str) -> bool {
    let modules = py.import("sys").and_then(|sys| sys.getattr("modules"));
    modules.and_then(|modules| modules.contains(module)).unwrap_or(false)
}

#[cfg(target_os = "linux")]
fn open(libraries: &[&str]) {
    for library in libraries {
        let Ok(name) = std::ffi::CString::new(*library) else { continue };
        // SAFETY: the name is a C string that outlives the call. Opening runs the library's
        // initialisers, which importing the framework would run a moment later. The result, null for
        // a missing library, is not used.
        unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_DEEPBIND) };
    }
}

#[cfg(not(target_os = "linux"))]
fn open(_libraries: &[&str]) {}
