//! The shape of an array, as its framework gives it.

use numpy::PyUntypedArrayMethods;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::host::layout::Dims;
use crate::interpreter::error::attempt;
use crate::memory::numpy_array;

fn shape<'py>(array: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    array.getattr(pyo3::intern!(array.py(), "shape"))
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
    let shape = shape(array)?;
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
    attempt(array.py(), shape(array).and_then(|shape| shape.len()))
}

/// The length of an array along an axis, which a trace can know even if it does not know the others.
pub fn length_along(array: &Bound<'_, PyAny>, axis: usize) -> Option<usize> {
    let length = shape(array).and_then(|shape| shape.get_item(axis)?.extract());
    attempt(array.py(), length)
}

/// The shape of an object as messages quote it.
pub fn text(array: &Bound<'_, PyAny>) -> String {
    let shape = attempt(array.py(), shape(array));
    shape.map_or_else(|| String::from("unknown"), |shape| shape.to_string())
}
