//! Shared libraries with colliding symbols.
//!
//! TensorFlow exports LLVM's symbols without a version. PoCL's own LLVM binds to them if it is loaded
//! later, and the process crashes when OpenCL devices are listed for the first time
//! (tensorflow#119254). A library that is opened with `RTLD_DEEPBIND` before this looks up its symbols
//! in itself first. A framework's table lists such libraries under `isolate`: those of the system by name,
//! those in a package by their path in it, since the dynamic linker does not look there.
//!
//! They are opened when the program imports what loads them: the framework for a library of the system, and
//! the package of any other.

use pyo3::prelude::*;
use pyo3::types::PyIterator;

use crate::framework::generated::MemoryType;
use crate::framework::spec::Isolate;
use crate::interpreter::error::attempt;
use crate::interpreter::park;

/// A finder in `sys.meta_path`. It sees each import first, and finds nothing itself.
#[pyclass(frozen, module = "arraybridge._core")]
struct ImportWatch;

#[pymethods]
impl ImportWatch {
    #[pyo3(signature = (name, _path = None, _target = None))]
    fn find_spec(
        &self,
        py: Python<'_>,
        name: &str,
        _path: Option<&Bound<'_, PyAny>>,
        _target: Option<&Bound<'_, PyAny>>,
    ) {
        park::rather_than_end(py);
        before_import(py, name);
    }
}

/// Opens the libraries that come with a module, if the one that they collide with has been imported.
fn before_import(py: Python<'_>, module: &str) {
    for framework in MemoryType::ALL.map(MemoryType::framework) {
        let Some(Isolate { libraries, from }) = &framework.isolate else { continue };
        for library in *libraries {
            match library.split_once('/') {
                None if framework.module == module && is_present(py, from) => open(library),
                Some((package, file)) if package == module && is_present(py, from) => {
                    files(py, package, file).iter().for_each(|path| open(path));
                }
                _ => {}
            }
        }
    }
}

/// Watches the imports from now on.
///
/// # Errors
///
/// Any exception that Python raises where `sys.meta_path` is not a list.
pub fn watch_imports(py: Python<'_>) -> PyResult<()> {
    if !cfg!(target_os = "linux") {
        return Ok(());
    }
    let finders = py.import("sys")?.getattr("meta_path")?;
    finders.call_method1("insert", (0, Bound::new(py, ImportWatch)?))?;
    Ok(())
}

fn is_present(py: Python<'_>, module: &str) -> bool {
    let modules = py.import("sys").and_then(|sys| sys.getattr("modules"));
    modules.and_then(|modules| modules.contains(module)).unwrap_or(false)
}

/// The files of a package that match a pattern. The package is found, but not imported.
fn files(py: Python<'_>, package: &str, pattern: &str) -> Vec<String> {
    let find = || -> PyResult<Vec<String>> {
        // Not `importlib.util.find_spec`, which asks all finders, and so this one.
        let finder = py.import("importlib.machinery")?.getattr("PathFinder")?;
        let spec = finder.call_method1("find_spec", (package,))?;
        if spec.is_none() {
            return Ok(Vec::new());
        }
        let folders = spec.getattr("submodule_search_locations")?;
        let glob = py.import("glob")?;
        let mut found = Vec::new();
        for folder in PyIterator::from_object(&folders)? {
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
