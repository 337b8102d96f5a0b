//! Declared methods of a class.

use arraybridge_runtime::prelude::*;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// Multiplies by a factor, and counts its calls.
#[pyclass]
pub struct Scale {
    #[pyo3(get, set)]
    factor: f32,
    calls: usize,
}

impl Scale {
    const BY: f32 = 3.0;
    const COLUMNS: usize = 2;
}

#[memory_methods]
#[pymethods]
impl Scale {
    #[new]
    #[pyo3(signature = (factor=2.0))]
    fn new(factor: f32) -> Self {
        Scale { factor, calls: 0 }
    }

    /// The image times the factor.
    #[memory_type(numpy, returns = input, cast, dtype_conversion = preserve, defaults(by = 1.0))]
    fn apply(&self, image: ArrayView2<'_, f32>, by: f32) -> Array2<f32> {
        &image * (self.factor * by)
    }

    #[memory_type(numpy)]
    fn add_to(&mut self, image: ArrayViewD<'_, f32>, mut out: ArrayViewMutD<'_, f32>) -> usize {
        out += &(&image * self.factor);
        self.calls += 1;
        self.calls
    }

    #[memory_type(numpy, for T in (u8, f32))]
    fn size_of<T: Element>(&self, _image: ArrayViewD<'_, T>) -> usize {
        size_of::<T>()
    }

    /// The whole part of the factor: a method may have the name of a type.
    #[memory_type(numpy)]
    fn int(&self) -> i64 {
        self.factor as i64
    }

    /// Calls back with the instance borrowed.
    #[memory_type(numpy)]
    fn during(&mut self, image: ArrayViewD<'_, f32>, callback: &Bound<'_, PyAny>) -> PyResult<()> {
        let _ = (image, &self);
        callback.call0().map(drop)
    }

    #[memory_type(torch)]
    #[staticmethod]
    fn ones(n: usize) -> Array1<f32> {
        Array1::ones(n)
    }

    /// A scale by the mean of an image.
    #[classmethod]
    #[memory_type(numpy, cast)]
    fn of<'py>(
        cls: &Bound<'py, PyType>,
        image: ArrayViewD<'_, f32>,
    ) -> PyResult<Bound<'py, PyAny>> {
        cls.call1((image.mean().unwrap_or(0.0),))
    }

    /// A scale of twice the factor.
    #[memory_type(numpy)]
    fn doubled(&self) -> Result<Self, Error> {
        Ok(Self::new(self.factor * 2.0))
    }

    /// An image of as many columns as a constant of the class says, times another one.
    #[memory_type(numpy, defaults(by = vec![Self::BY; 2]), shape(image = [_, Self::COLUMNS]))]
    #[staticmethod]
    fn narrow(
        image: ArrayView2<'_, f32>,
        by: Vec<f32>,
        rows: Option<[u8; Self::COLUMNS]>,
    ) -> Array2<f32> {
        let _ = rows;
        &image * by[1]
    }

    /// It is not in this build, and neither are its mistakes.
    #[cfg(any())]
    #[memory_type(numpy)]
    fn left_out(&self, image: DeviceView<'_, f32>) -> f32 {
        image.sum()
    }

    #[cfg_attr(all(), cfg(any()), allow(dead_code))]
    #[memory_type(cupy)]
    fn left_out_too(&self, image: DeviceView<'_, f32>) -> Missing {
        Missing(image)
    }

    #[cfg(all())]
    #[memory_type(numpy)]
    fn left_in(&self) -> usize {
        self.calls
    }

    /// How often it was called.
    fn count(&self) -> usize {
        self.calls
    }
}

/// Lints of declared methods, and of their block.
#[pyclass]
pub struct Linted {
    #[pyo3(get)]
    factor: f32,
}

#[deprecated(note = "declared functions may take and give it")]
type Old<T> = T;

#[memory_methods]
#[pymethods]
#[expect(non_snake_case, reason = "only a method that is declared has such a name")]
#[allow(deprecated, reason = "methods have the attributes of their block")]
impl Linted {
    #[new]
    fn new(factor: f32) -> Self {
        Linted { factor }
    }

    #[memory_type(numpy)]
    fn Factor(&self, factor: Old<f32>) -> Old<f32> {
        self.factor * factor
    }
}

#[expect(deprecated, reason = "the generated code names the type as well")]
#[memory_type(numpy)]
fn old_type(factor: Old<f32>) -> f32 {
    factor
}

#[deprecated(note = "Rust code is warned")]
#[memory_type(numpy)]
fn old_function(factor: f32) -> f32 {
    factor
}

#[deprecated(note = "Rust code is warned")]
#[derive(NamedTuple)]
struct OldTuple {
    #[deprecated(note = "Rust code is warned")]
    factor: f32,
}

#[expect(deprecated, reason = "this is Rust code")]
#[memory_type(numpy)]
fn old_tuple(factor: f32) -> OldTuple {
    OldTuple { factor: old_function(factor) }
}

/// A class without declared methods.
#[pyclass]
pub struct Plain;

/// A class that names its module.
#[pyclass(module = "elsewhere")]
pub struct Elsewhere;
