//! Results that their framework computes later.

use pyo3::prelude::*;
use pyo3::types::PyIterator;

use arraybridge_runtime::framework::detect;
use arraybridge_runtime::framework::loaded;
use arraybridge_runtime::framework::spec::Framework;
use arraybridge_runtime::interpreter::containers::Container;

/// Computes the arrays of a result, if their framework does that only when somebody asks. They then belong to no
/// thread, and what their computation raises is raised here. Returns the result.
///
/// # Errors
///
/// Any exception that the framework raises when their computation fails.
#[inline]
pub fn compute<'py>(
    framework: &'static Framework,
    result: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    if !framework.lazy {
        return Ok(result);
    }
    let has_arrays = match detect::class_of(&result) {
        Some(class) => class.framework.is(framework),
        None => Container::of(&result).is_some(),
    };
    if has_arrays { wait(framework, result) } else { Ok(result) }
}

/// Waits for the arrays of a result, if their framework returns before they are computed. Returns the result: that of
/// `ready`, if it makes another array of an array.
///
/// # Errors
///
/// Any exception that the framework raises when their computation failed.
pub fn wait<'py>(
    framework: &'static Framework,
    result: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let Some(ready) = framework.ready else { return Ok(result) };
    let is_array = detect::is_of(&result, framework);
    // The items of an iterator do not exist yet.
    if !is_array && result.cast::<PyIterator>().is_ok() {
        return Ok(result);
    }
    let loaded = loaded::load(result.py(), framework)?;
    let answer = ready.call(loaded, [&result])?;
    Ok(if is_array && detect::is_of(&answer, framework) { answer } else { result })
}
