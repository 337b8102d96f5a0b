//! Tensors that PyO3 extracts and returns.

use std::sync::Mutex;

use arraybridge_runtime::prelude::*;
use pyo3::prelude::*;

/// An object that keeps an array of any framework.
#[pyclass]
struct Image {
    #[pyo3(get, set)]
    pixels: Tensor,
}

#[pymethods]
impl Image {
    #[new]
    fn new(pixels: Tensor) -> Image {
        Image { pixels }
    }

    /// An image whose pixels are allocated by Rust.
    #[staticmethod]
    fn ones(n: usize) -> Result<Image> {
        Ok(Image { pixels: Tensor::from_vec(vec![1.0_f32; n], &[n])? })
    }

    /// The sum of the pixels.
    fn sum(&self) -> Result<f32> {
        Ok(self.pixels.view::<f32>()?.sum())
    }
}

/// The sums of several tensors.
#[pyfunction]
fn sums(tensors: Vec<Tensor>) -> Result<Vec<f32>> {
    tensors.iter().map(|tensor| Ok(tensor.view::<f32>()?.sum())).collect()
}

/// A tensor that shares its memory with one that stays here.
#[memory_type(numpy)]
fn shared_ones(n: usize) -> Result<Tensor> {
    static KEPT: Mutex<Option<Tensor>> = Mutex::new(None);
    let tensor = Tensor::from_vec(vec![1.0_f32; n], &[n])?;
    *KEPT.lock().expect("nothing panics here") = Some(tensor.clone());
    Ok(tensor)
}

/// A tensor whose clones are gone.
#[memory_type(numpy)]
fn ones_shared_before(n: usize) -> Result<Tensor> {
    let tensor = Tensor::from_vec(vec![1.0_f32; n], &[n])?;
    drop(tensor.clone());
    Ok(tensor)
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Image>()?;
    module.add_function(wrap_pyfunction!(sums, module)?)
}
