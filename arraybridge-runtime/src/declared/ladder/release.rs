//! Letting go of what a failed attempt holds.

use pyo3::intern;
use pyo3::prelude::*;

/// Drops what a failed attempt holds: the frames of its traceback keep every local variable alive.
/// An exception that the caller is handling stands behind the attempt's own; its frames are not ours.
pub fn references(py: Python<'_>, error: &PyErr) {
    // What cannot be let go is no reason to fail.
    let _ = (|| -> PyResult<()> {
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
}
