//! Results that their framework computes later.

use pyo3::prelude::*;
use pyo3::types::PyIterator;

use arraybridge_runtime::framework::detect;
use arraybridge_runtime::framework::loaded;
use arraybridge_runtime::framework::spec::Framework;
use arraybridge_runtime::interpreter::containers::Container;

/// Computes the arrays of a result, if their framework does that only when somebody asks. They then belong to no
/// thread, and what their computation raises is raised here.
///
/// # Errors
///
/// Any exception that the framework raises when their computation fails.
#[inline]
pub fn compute(framework: &'static Framework, result: &Bound<'_, PyAny>) -> PyResult<()> {
    if !framework.lazy {
        return Ok(());
    }
    let has_arrays = match detect::class_of(result) {
        Some(class) => class.framework.is(framework),
        None => Container::of(result).is_some(),
    };
    if has_arrays { wait(framework, result) } else { Ok(()) }
}

/// Waits for the arrays of a result, if their framework returns before they are computed.
///
/// # Errors
///
/// Any exception that the framework raises when their computation failed.
pub fn wait(framework: &'static Framework, result: &Bound<'_, PyAny>) -> PyResult<()> {
    let Some(ready) = framework.ready else { return Ok(()) };
    // The items of an iterator do not exist yet.
    if result.cast::<PyIterator>().is_ok() {
        return Ok(());
    }
    let py = result.py();
    let loaded = loaded::load(py, framework)?;
    ready.call(loaded, [result]).map(drop)
}
