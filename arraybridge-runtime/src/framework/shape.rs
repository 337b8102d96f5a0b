//! The shape of an array, as its framework gives it.

use std::sync::OnceLock;

use numpy::PyUntypedArrayMethods;
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::framework::detect;
use crate::framework::generated::COMPILED;
use crate::framework::spec::Framework;
use crate::framework::{loaded, registry};
use crate::interpreter::error::attempt;
use crate::memory::numpy_array;
use arraybridge_host::layout::Dims;

/// Returns whether a table says how a shape is read, or sets its framework up before. The attribute is all there is to
/// read otherwise, and the class of the array is not looked at.
fn is_special() -> bool {
    let is = |framework: &Framework| framework.shape_of.is_some() || framework.init.is_some();
    static COMPILED_IS: OnceLock<bool> = OnceLock::new();
    *COMPILED_IS.get_or_init(|| COMPILED.into_iter().any(is)) || registry::loaded().any(is)
}

/// The shape of an object: a sequence of its lengths, not all of which a trace may know.
///
/// # Errors
///
/// Any exception that the object raises, and what the framework raises when it is set up.
pub fn object<'py>(array: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if is_special()
        && let Some(shape) = by_table(array)?
    {
        return Ok(shape);
    }
    match array.getattr(crate::intern!(array.py(), "shape")) {
        Err(error) if error.is_instance_of::<PyAttributeError>(array.py()) => {
            exported(array, error)
        }
        shape => shape,
    }
}

/// The shape by the table's `shape_of`.
fn by_table<'py>(array: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(class) = detect::class_of(array).filter(|class| class.is_array()) else {
        return Ok(None);
    };
    let framework = class.framework;
    if framework.shape_of.is_none() && framework.init.is_none() {
        return Ok(None);
    }
    let loaded = loaded::load(array.py(), framework)?;
    let Some(shape_of) = &framework.shape_of else { return Ok(None) };
    let lengths = shape_of.call(loaded, [array])?.try_iter()?.collect::<PyResult<Vec<_>>>()?;
    Ok(Some(PyTuple::new(array.py(), lengths)?.into_any()))
}

/// The shape of what an array without the attribute exports. `error` is why it has none.
#[cold]
fn exported<'py>(array: &Bound<'py, PyAny>, error: PyErr) -> PyResult<Bound<'py, PyAny>> {
    let py = array.py();
    let Some(class) = detect::class_of(array).filter(|class| class.is_array()) else {
        return Err(error);
    };
    let loaded = loaded::load(py, class.framework)?;
    match attempt(py, loaded.described(array)) {
        Some((_, shape)) => Ok(PyTuple::new(py, shape)?.into_any()),
        None => Err(error),
    }
}

/// The lengths of an array along its axes.
///
/// # Errors
///
/// Any exception that the object raises, and a `TypeError` for a length that a trace does not know.
pub fn read(array: &Bound<'_, PyAny>) -> PyResult<Dims<usize>> {
    if let Some(array) = numpy_array::array(array) {
        return Ok(array.shape().into());
    }
    let shape = object(array)?;
    match shape.cast::<PyTuple>() {
        Ok(shape) => shape.iter().map(|length| length.extract()).collect(),
        Err(_) => shape.try_iter()?.map(|length| length?.extract()).collect(),
    }
}

/// The shape of an object; `None` if it has no shape or a trace does not know all of it.
pub fn of(array: &Bound<'_, PyAny>) -> Option<Dims<usize>> {
    attempt(array.py(), read(array))
}

/// The number of axes of an object, which a trace can know even if it does not know their lengths.
pub fn ndim(array: &Bound<'_, PyAny>) -> Option<usize> {
    attempt(array.py(), object(array).and_then(|shape| shape.len()))
}

/// The length of an array along an axis, which a trace can know even if it does not know the others.
pub fn length_along(array: &Bound<'_, PyAny>, axis: usize) -> Option<usize> {
    let length = object(array).and_then(|shape| shape.get_item(axis)?.extract());
    attempt(array.py(), length)
}

/// The shape of an object as messages quote it.
pub fn text(array: &Bound<'_, PyAny>) -> String {
    let shape = attempt(array.py(), object(array));
    shape.map_or_else(|| String::from("unknown"), |shape| shape.to_string())
}
