//! The object of a declared function.

use arraybridge_runtime::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;

use super::definition::Definition;
use arraybridge_runtime::interpreter::{function_code, vectorcall};

/// A function that takes arrays of any framework and receives those of the framework that it is
/// declared for.
///
/// The decorators create it. From a Python function they make a Python function that calls it. It is
/// called like the function, with two more keywords, which its signature does not show. `dtype_conversion` is the dtype of this call's result, as in `dtype_policy`. `slice_by_slice=True`
/// calls the function for each 2-D slice of the first array and stacks the results, as
/// `process_slices` does. `__wrapped__` is the function; `input_memory_type`, `output_memory_type` and
/// `execution_memory_type` are names of frameworks.
///
/// A call raises what the function raises, what `convert` raises for an argument or a result that
/// cannot be converted, and `ValueError` for a result that violates the contract. The default value
/// of a parameter is passed to the function as it is.
///
/// Examples
/// --------
/// >>> import numpy, arraybridge
/// >>> @arraybridge.numpy
/// ... def half(image):
/// ...     return image / 2
/// >>> half(numpy.array([100, 500], dtype="uint16"))
/// array([ 50, 250], dtype=uint16)
/// >>> half(numpy.array([1, 2], dtype="uint16"), dtype_conversion="native")
/// array([0.5, 1. ])
#[pyclass(frozen, dict, weakref, module = "arraybridge", name = "Declared")]
pub struct Declared {
    pub(super) vectorcall: vectorcall::Slot<Declared>,
    pub(super) definition: Definition,
}

impl Declared {
    /// The object that a declared function is, or that it calls; `None` for anything else.
    pub fn of<'py>(function: &Bound<'py, PyAny>) -> Option<Bound<'py, Declared>> {
        let called = || called(function);
        function.cast::<Declared>().cloned().ok().or_else(called)
    }

    /// The function and its declaration.
    #[inline]
    pub(super) fn definition(&self) -> &Definition {
        &self.definition
    }
}

/// Returns whether an object is a Python function.
pub(super) fn is_python_function(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    Ok(object.get_type().is(CLASS.import(object.py(), "types", "FunctionType")?))
}

/// Returns whether an object has the code of a Python function: it is one, or it calls the one that it wraps, as the
/// functions of `jax.jit` do.
pub(super) fn has_python_code(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    if is_python_function(object)? {
        return Ok(true);
    }
    let wrapped = object.getattr_opt(intern!(object.py(), "__wrapped__"))?;
    wrapped.map_or(Ok(false), |wrapped| is_python_function(&wrapped))
}

/// The declared function behind a Python function that was made for it, here or in a process that
/// pickled it by value.
fn called<'py>(function: &Bound<'py, PyAny>) -> Option<Bound<'py, Declared>> {
    let py = function.py();
    if !is_python_function(function).ok()?
        || !function_code::is_ours(&function.getattr("__code__").ok()?)
    {
        return None;
    }
    let closure = function.getattr(intern!(py, "__closure__")).ok()?.cast_into::<PyTuple>().ok()?;
    let contents = closure.get_item(0).ok()?.getattr(intern!(py, "cell_contents")).ok()?;
    contents.cast_into().ok()
}
