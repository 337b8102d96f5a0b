//! The code of declared Python functions.

use crate::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// Returns whether a code object is that of `arraybridge._declared.function`.
pub fn is_ours(code: &Bound<'_, PyAny>) -> bool {
    let names = code.getattr(intern!(code.py(), "co_freevars"));
    names.and_then(|names| names.eq(("__arraybridge_declared__",))).unwrap_or(false)
}

/// The module whose frames lie between those of the package where PyTorch's compiler is kept from reading a call.
const UNSEEN_BY_DYNAMO: &str = "torch._dynamo.eval_frame";

/// Returns whether a frame is one of the package, that of a declared function, or one between them.
pub fn is_inside(frame: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = frame.py();
    let name = frame.getattr(intern!(py, "f_globals"))?.get_item("__name__").ok();
    let name = name.and_then(|name| name.cast_into::<PyString>().ok());
    let name = name.as_ref().map_or(Ok(""), |name| name.to_str())?;
    if name.split('.').next() == Some("arraybridge") || name == UNSEEN_BY_DYNAMO {
        return Ok(true);
    }
    Ok(is_ours(&frame.getattr(intern!(py, "f_code"))?))
}

/// The `stacklevel` of a warning that is meant for the caller of this library.
pub fn stack_level(py: Python<'_>) -> i32 {
    let mut level = 1;
    let mut next = py.import("sys").and_then(|sys| sys.call_method0("_getframe"));
    while let Ok(frame) = next
        && is_inside(&frame).unwrap_or(false)
    {
        level += 1;
        next = frame.getattr("f_back");
    }
    level
}
