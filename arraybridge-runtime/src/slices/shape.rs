//! The shapes of the arrays that are stacked or joined.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::join::Along;
use crate::interpreter::error::{Error, Result, attempt};
use crate::memory::view::{Dims, View};

/// The shape of an object; `None` if it has no shape or a trace does not know all of it.
pub fn shape_of(array: &Bound<'_, PyAny>) -> Option<Dims<usize>> {
    let py = array.py();
    let shape = attempt(py, array.getattr(pyo3::intern!(py, "shape")))?;
    let length = |length: Bound<'_, PyAny>| attempt(py, length.extract());
    match shape.cast::<PyTuple>() {
        Ok(shape) => shape.iter().map(length).collect(),
        Err(_) => attempt(py, shape.try_iter())?.map(|item| length(attempt(py, item)?)).collect(),
    }
}

/// The number of axes of an object, which a trace can know even if it does not know their lengths.
pub(super) fn ndim_of(array: &Bound<'_, PyAny>) -> Option<usize> {
    let py = array.py();
    attempt(py, array.getattr(pyo3::intern!(py, "shape")).and_then(|shape| shape.len()))
}

/// The shape of an object as messages quote it.
pub(super) fn shape_text(array: &Bound<'_, PyAny>) -> String {
    let shape = attempt(array.py(), array.getattr(pyo3::intern!(array.py(), "shape")));
    shape.map_or_else(|| String::from("unknown"), |shape| shape.to_string())
}

/// The number of 2-D slices in a 3-D array.
///
/// # Errors
///
/// [`Error::Value`] when the array is not 3-D or a trace does not know its length.
pub(super) fn slice_count(array: &Bound<'_, PyAny>) -> Result<usize> {
    if ndim_of(array) != Some(3) {
        return Err(Error::Value(format!(
            "Array must be 3D, a stack of 2D slices, but its shape is {}",
            shape_text(array)
        )));
    }
    first_length(array).ok_or_else(|| {
        Error::Value("the number of slices is unknown; give the trace a static shape".into())
    })
}

/// The length of the first axis, which a trace can know even if it does not know the others.
fn first_length(array: &Bound<'_, PyAny>) -> Option<usize> {
    let py = array.py();
    let shape = attempt(py, array.getattr(pyo3::intern!(py, "shape")))?;
    attempt(py, shape.get_item(0).and_then(|length| length.extract()))
}

/// Checks that the shapes of arrays fit together, as far as they are known. Frameworks report a mismatch in
/// words of their own, or not at all.
///
/// # Errors
///
/// [`Error::Value`] with the two shapes.
pub(super) fn check_shapes(
    arrays: &[Bound<'_, PyAny>],
    shape_at: impl Fn(usize) -> Option<Dims<usize>>,
    along: Along,
) -> Result<()> {
    let Some(first) = shape_at(0) else { return Ok(()) };
    if let Along::Axis(axis) = along
        && axis >= first.len()
    {
        let shape = shape_text(&arrays[0]);
        return Err(Error::Value(format!("arrays of the shape {shape} have no axis {axis}")));
    }
    for (index, array) in arrays.iter().enumerate().skip(1) {
        let Some(mut shape) = shape_at(index) else { continue };
        if let Along::Axis(axis) = along
            && shape.len() == first.len()
        {
            shape[axis] = first[axis];
        }
        if shape != first {
            return Err(Error::Value(format!(
                "the array at index {index} has the shape {}, which does not fit the shape of the \
                 first one, {}",
                shape_text(array),
                shape_text(&arrays[0])
            )));
        }
    }
    Ok(())
}

/// The shape of the result of joining arrays whose shapes fit together.
pub(super) fn joined_shape(views: &[&View], along: Along) -> Dims<usize> {
    let mut shape = Dims::from_slice(views[0].shape());
    match along {
        Along::NewAxis => shape.insert(0, views.len()),
        Along::Axis(axis) => shape[axis] = views.iter().map(|view| view.shape()[axis]).sum(),
    }
    shape
}
