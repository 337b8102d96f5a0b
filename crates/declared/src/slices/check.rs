//! The shapes of the arrays that are stacked or joined.

use pyo3::prelude::*;

use arraybridge_runtime::framework::shape;
use arraybridge_runtime::interpreter::error::{Error, Result};
use arraybridge_tensor::memory::view::{Dims, View};

/// The axis along which arrays are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Along {
    /// A new first axis: the arrays are stacked.
    NewAxis,
    /// An axis that they have: the arrays are concatenated.
    Axis(usize),
}

/// The number of 2-D slices in a 3-D array.
///
/// # Errors
///
/// [`Error::Value`] when the array is not 3-D or a trace does not know its length.
pub(super) fn slice_count(array: &Bound<'_, PyAny>) -> Result<usize> {
    if shape::ndim(array) != Some(3) {
        return Err(Error::Value(format!(
            "Array must be 3D, a stack of 2D slices, but its shape is {}",
            shape::text(array)
        )));
    }
    length_along(array, 0)
}

/// The number of slices along an axis.
///
/// # Errors
///
/// [`Error::Value`] when the array has no such axis, or a trace does not know its length.
pub(super) fn length_along(array: &Bound<'_, PyAny>, axis: usize) -> Result<usize> {
    shape::length_along(array, axis).ok_or_else(|| {
        Error::Value("the number of slices is unknown; give the trace a static shape".into())
    })
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
        let text = shape::text(&arrays[0]);
        return Err(Error::Value(format!("arrays of the shape {text} have no axis {axis}")));
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
                shape::text(array),
                shape::text(&arrays[0])
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
