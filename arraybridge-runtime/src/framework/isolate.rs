//! Shared libraries with colliding symbols.
//!
//! TensorFlow exports LLVM's symbols without a version. PoCL's own LLVM binds to them if it is loaded
//! later, and the process crashes when OpenCL devices are listed for the first time
//! (tensorflow#119254). A library that is opened with `RTLD_DEEPBIND` before this looks up its symbols
//! in itself first. A framework's table lists such libraries under `isolate`: those of the system by name,
//! those in a package by their path in it, since the dynamic linker does not look there.

use pyo3::prelude::*;
use pyo3::types::PyIterator;

use crate::framework::generated::MemoryType;
use crate::framework::spec::Framework;
use crate::interpreter::error::attempt;

/// Opens the libraries that a framework isolates, if the module that they collide with has been
/// imported and the framework has not.
pub fn before_import(py: Python<'_>, framework: &'static Framework) {
    if let Some(isolate) = &framework.isolate
        && is_present(py, isolate.from)
        && !is_present(py, framework.module)
    {
        for library in isolate.libraries {
            match library.split_once('/') {
                None => open(library),
                Some((package, file)) => {
                    files(py, package, file).iter().for_each(|path| open(path));
                }
            }
        }
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

/// The files of a package that match a pattern. The package is found, but not imported.
fn files(py: Python<'_>, package: &str, pattern: &str) -> Vec<String> {
    let find = || -> PyResult<Vec<String>> {
        let spec = py.import("importlib.util")?.call_method1("find_spec", (package,))?;
        if spec.is_none() {
            return Ok(Vec::new());
        }
        let glob = py.import("glob")?;
        let mut found = Vec::new();
        for folder in PyIterator::from_object(&spec.getattr("submodule_search_locations")?)? {
            let folder: String = glob.call_method1("escape", (folder?,))?.extract()?;
            let paths = glob.call_method1("glob", (format!("{folder}/{pattern}"),))?;
            found.extend(paths.extract::<Vec<String>>()?);
        }
        found.sort();
        Ok(found)
    };
    attempt(py, find()).unwrap_or_default()
}

#[cfg(target_os = "linux")]
fn open(library: &str) {
    let Ok(name) = std::ffi::CString::new(library) else { return };
    // SAFETY: the name is a C string that outlives the call. Opening runs the library's
    // initialisers, which importing the framework would run a moment later. The result, null for
    // a missing library, is not used.
    unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_DEEPBIND) };
}

#[cfg(not(target_os = "linux"))]
fn open(_library: &str) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_those_of_the_package_that_match() {
        Python::attach(|py| {
            let found = files(py, "numpy", "_core/_multiarray_u*.so");
            let [path] = &found[..] else { panic!("{found:?}") };
            assert!(path.contains("/numpy/_core/_multiarray_umath."));
            assert!(files(py, "numpy", "_core/gone*.so").is_empty());
            // Neither a package nor a module without a folder.
            assert!(files(py, "arraybridge_gone", "*").is_empty());
            assert!(files(py, "sys", "*").is_empty());
        });
    }
}
