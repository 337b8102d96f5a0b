//! The code of declared Python functions.

use pyo3::intern;
use pyo3::prelude::*;

/// Returns whether a code object is that of `arraybridge._function`.
pub fn is_ours(code: &Bound<'_, PyAny>) -> bool {
    let names = code.getattr(intern!(code.py(), "co_freevars"));
    names.and_then(|names| names.eq(("__arraybridge_declared__",))).unwrap_or(false)
}

/// The `stacklevel` of a warning that is meant for the caller of this library: the frames of declared
/// functions are left out.
pub fn stack_level(py: Python<'_>) -> i32 {
    let mut level = 1;
    let mut next = py.import("sys").and_then(|sys| sys.call_method0("_getframe"));
    while let Ok(frame) = next
        && frame.getattr("f_code").is_ok_and(|code| is_ours(&code))
    {
        level += 1;
        next = frame.getattr("f_back");
    }
    level
}
