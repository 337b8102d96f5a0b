//! What an extension writes without arraybridge: PyO3 functions with rust-numpy's arrays.

use numpy::{PyReadonlyArrayDyn, PyReadwriteArrayDyn};
use pyo3::prelude::*;

#[pyfunction]
fn reading(array: PyReadonlyArrayDyn<'_, f32>, callback: &Bound<'_, PyAny>) -> PyResult<()> {
    let _ = array;
    callback.call0().map(drop)
}

#[pyfunction]
fn writing(array: PyReadwriteArrayDyn<'_, f32>, callback: &Bound<'_, PyAny>) -> PyResult<()> {
    let _ = array;
    callback.call0().map(drop)
}

#[pyfunction]
fn total_by_hand(array: PyReadonlyArrayDyn<'_, f32>) -> f32 {
    array.as_array().sum()
}

/// Adds the functions.
pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(reading, module)?)?;
    module.add_function(wrap_pyfunction!(writing, module)?)?;
    module.add_function(wrap_pyfunction!(total_by_hand, module)?)
}
