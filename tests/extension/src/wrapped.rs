//! Functions whose result is put into an object like the one that the first array is in, for
//! tests/python/rust/test_rust_wrappers.py.

use arraybridge_runtime::prelude::*;
use pyo3::prelude::*;

#[memory_type(numpy, returns = input, cast, keep = true)]
fn doubled_with_its_unit(image: ArrayViewD<'_, f32>) -> ArrayD<f32> {
    &image * 2.0
}

#[memory_type(numpy, returns = input, cast, keep = strict)]
fn turned_strictly(image: ArrayView2<'_, f32>) -> Array2<f32> {
    image.t().to_owned()
}

#[memory_type(numpy, returns = input, cast, keep = false)]
fn turned_alone(image: ArrayView2<'_, f32>) -> Array2<f32> {
    image.t().to_owned()
}

/// The sum of each row, the image turned, and the number of rows.
#[memory_type(numpy, returns = input, cast, dtype_conversion = context)]
fn rows_of(image: ArrayView2<'_, f32>) -> (Array1<f32>, Array2<f32>, usize) {
    (image.rows().into_iter().map(|row| row.sum()).collect(), image.t().to_owned(), image.nrows())
}

/// The largest value around each pixel.
#[memory_type(numpy, returns = input, cast, tiles(4, 4), halo = 1)]
fn dilated(image: ArrayView2<'_, f32>) -> Array2<f32> {
    let near = |at: usize, length: usize| at.saturating_sub(1)..length.min(at + 2);
    let (height, width) = image.dim();
    Array2::from_shape_fn((height, width), |(y, x)| {
        let around = near(y, height).flat_map(|y| near(x, width).map(move |x| (y, x)));
        around.map(|at| image[at]).fold(f32::MIN, f32::max)
    })
}

/// Weighs an image, and counts what it writes in `out`.
#[memory_type(numpy, returns = input)]
fn weighed(
    image: ArrayViewD<'_, f64>,
    weight: ArrayViewD<'_, f64>,
    out: Option<ArrayViewMutD<'_, f64>>,
) -> ArrayD<f64> {
    let result = &image * &weight;
    if let Some(mut out) = out {
        out.assign(&result);
    }
    result
}

#[pyclass]
pub struct Gain(f64);

#[memory_methods]
#[pymethods]
impl Gain {
    #[new]
    fn new(gain: f64) -> Gain {
        Gain(gain)
    }

    #[memory_type(numpy, returns = input)]
    fn apply(&self, image: ArrayViewD<'_, f64>) -> ArrayD<f64> {
        &image * self.0
    }
}
