//! Releases the memory that a failed attempt keeps alive.

use arraybridge_runtime::intern;
use arraybridge_runtime::interpreter::package::Part;
use pyo3::prelude::*;

use arraybridge_runtime::interpreter::interrupt::is_interrupt;

/// Clears the frames of an error's traceback, which keep every local variable of the attempt alive.
///
/// # Errors
///
/// An interrupt. A frame that cannot be cleared is not a reason to fail.
pub fn clear_frames(py: Python<'_>, error: &PyErr) -> PyResult<()> {
    // Before CPython 3.12 the value alone has no traceback.
    let error = error.clone_ref(py).into_value(py);
    let cleared = Part::Ladder
        .get(py)
        .and_then(|module| module.call_method1(intern!(py, "clear_frames"), (error,)));
    py.check_signals()?;
    match cleared {
        Err(error) if is_interrupt(py, &error) => Err(error),
        _ => Ok(()),
    }
}
