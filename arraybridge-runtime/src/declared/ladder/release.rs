//! Releases the memory that a failed attempt keeps alive.

use pyo3::intern;
use pyo3::prelude::*;

use crate::interpreter::interrupt::is_interrupt;

/// Clears the frames of an error's traceback, which keep every local variable of the attempt alive.
///
/// The error that the caller is handling may be its context. The frames of that one are the caller's
/// and are left alone.
///
/// # Errors
///
/// An interrupt. A frame that cannot be cleared is not a reason to fail.
pub fn clear_frames(py: Python<'_>, error: &PyErr) -> PyResult<()> {
    let cleared = (|| -> PyResult<()> {
        let clear = py.import(intern!(py, "traceback"))?.getattr(intern!(py, "clear_frames"))?;
        if let Some(traceback) = error.traceback(py) {
            clear.call1((traceback,))?;
        }
        let mut pending = vec![error.value(py).clone().into_any()];
        let handled = py.import(intern!(py, "sys"))?.call_method0(intern!(py, "exception"))?;
        let mut seen = vec![handled.as_ptr()];
        while let Some(error) = pending.pop() {
            if error.is_none() || seen.contains(&error.as_ptr()) {
                continue;
            }
            seen.push(error.as_ptr());
            let traceback = error.getattr(intern!(py, "__traceback__"))?;
            if !traceback.is_none() {
                clear.call1((traceback,))?;
            }
            pending.push(error.getattr(intern!(py, "__cause__"))?);
            pending.push(error.getattr(intern!(py, "__context__"))?);
        }
        Ok(())
    })();
    py.check_signals()?;
    cleared.or_else(|error| match is_interrupt(py, &error) {
        true => Err(error),
        false => Ok(()),
    })
}
