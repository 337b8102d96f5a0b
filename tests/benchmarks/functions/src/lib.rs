//! Declared functions, and the same functions written by hand, for the group "functions" of cases.py and for
//! `authors/run.py`.

use arraybridge_runtime::prelude::*;
use numpy::{PyArray2, PyReadonlyArray1, PyReadonlyArray2, PyReadwriteArray2};
use pyo3::prelude::*;

#[memory_type(numpy)]
fn total(image: ArrayView2<'_, f32>) -> f32 {
    image.sum()
}

#[memory_type(numpy)]
fn doubled(image: ArrayView2<'_, f32>) -> Array2<f32> {
    &image * 2.0
}

#[memory_type(numpy, returns = input, result = image)]
fn doubled_for_the_caller(image: ArrayView2<'_, f32>) -> Array2<f32> {
    &image * 2.0
}

#[memory_type(numpy)]
fn add_to(image: ArrayView2<'_, f32>, mut out: ArrayViewMut2<'_, f32>) {
    out += &image;
}

#[memory_type(numpy)]
fn total_of_all(images: Vec<ArrayView1<'_, f32>>) -> f32 {
    images.iter().map(|image| image[0]).sum()
}

#[memory_type(numpy)]
fn add_to_all(outs: Vec<ArrayViewMut1<'_, f32>>) {
    outs.into_iter().for_each(|mut out| out[0] += 1.0);
}

#[pyfunction]
fn total_of_all_by_hand(images: Vec<PyReadonlyArray1<'_, f32>>) -> f32 {
    images.iter().map(|image| image.as_array()[0]).sum()
}

#[pyfunction]
fn total_by_hand(image: PyReadonlyArray2<'_, f32>) -> f32 {
    total(image.as_array())
}

#[pyfunction]
fn doubled_by_hand<'py>(
    py: Python<'py>,
    image: PyReadonlyArray2<'py, f32>,
) -> Bound<'py, PyArray2<f32>> {
    PyArray2::from_owned_array(py, doubled(image.as_array()))
}

#[pyfunction]
fn add_to_by_hand(image: PyReadonlyArray2<'_, f32>, mut out: PyReadwriteArray2<'_, f32>) {
    let mut out = out.as_array_mut();
    out += &image.as_array();
}

#[pymodule]
fn functions(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(total_by_hand, module)?)?;
    module.add_function(wrap_pyfunction!(total_of_all_by_hand, module)?)?;
    module.add_function(wrap_pyfunction!(doubled_by_hand, module)?)?;
    module.add_function(wrap_pyfunction!(add_to_by_hand, module)?)?;
    arraybridge_runtime::python::export(module)
}
