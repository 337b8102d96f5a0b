//! Declared functions of every kind, for tests/python/rust/test_rust_functions.py.

#![deny(warnings)]

mod aliasing;
mod by_hand;
mod constraints;
mod containers;
mod cuda;
mod detached;
mod elements;
mod fragments;
mod hygiene;
mod methods;
mod native;
mod tensors;
mod wrapped;

use std::sync::atomic::{AtomicBool, Ordering};

use arraybridge_runtime::prelude::*;
use pyo3::prelude::*;

/// The sum of an image, whose gradient ends here.
#[memory_type(numpy, stop_gradient)]
fn total_as_it_is(image: ArrayView2<'_, f32>) -> f32 {
    image.sum()
}

/// The sum of an image.
///
/// It is exact.
#[memory_type(numpy)]
fn total(image: ArrayView2<'_, f32>) -> f32 {
    image.sum()
}

#[memory_type(numpy, returns = input, defaults(by = 2.0, label = "x"))]
fn scaled(image: ArrayViewD<'_, f64>, by: f64, label: &str) -> ArrayD<f64> {
    assert_eq!(label, "x");
    image.to_owned() * by
}

#[memory_type(torch)]
fn ones(shape: (usize, usize)) -> Array2<f32> {
    Array2::ones(shape)
}

#[memory_type(numpy, cast)]
fn mean(image: ArrayViewD<'_, f32>) -> Option<f32> {
    image.mean()
}

/// Adds into `out`.
#[memory_type(numpy)]
fn add_into(image: ArrayView1<'_, f32>, mut out: ArrayViewMut1<'_, f32>) {
    out += &image;
}

/// Adds one to `out` while `image` is borrowed.
#[memory_type(numpy)]
fn touch(image: ArrayViewD<'_, f32>, mut out: ArrayViewMutD<'_, f32>) -> f32 {
    out += 1.0;
    image.sum()
}

/// Calls back while it borrows one array to read and another one to write.
#[memory_type(numpy)]
fn during(
    image: ArrayViewD<'_, f32>,
    callback: &Bound<'_, PyAny>,
    out: Option<ArrayViewMutD<'_, f32>>,
) -> PyResult<()> {
    let _ = (image, out);
    callback.call0().map(drop)
}

#[memory_type(numpy)]
fn fill(mut out: ArrayViewMutD<'_, i64>, value: i64) {
    out.fill(value);
}

#[memory_type(numpy)]
fn invert(mask: ArrayViewD<'_, bool>) -> ArrayD<bool> {
    mask.map(|x| !x)
}

#[memory_type(numpy)]
fn conjugate(data: ArrayView1<'_, Complex<f32>>) -> Array1<Complex<f32>> {
    data.map(|x| x.conj())
}

#[memory_type(numpy, returns = input)]
fn halves(data: ArrayView1<'_, f16>, brains: ArrayView1<'_, bf16>) -> (Array1<f16>, Array1<bf16>) {
    (data.to_owned(), brains.to_owned())
}

#[memory_type(torch)]
fn doubled<'py>(py: Python<'py>, image: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let _ = py;
    image.add(&image)
}

#[memory_type(jax)]
fn class_name(image: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(image.get_type().fully_qualified_name()?.to_string())
}

#[memory_type(numpy)]
fn largest(data: &Tensor) -> Result<f64, Error> {
    dispatch!(data, T, |view| view.iter().fold(f64::MIN, |most, x: &T| most.max(*x as f64)))
}

#[memory_type(numpy)]
fn elements(data: Option<&Tensor>) -> Option<usize> {
    data.map(|data| data.shape().iter().product())
}

#[memory_type(numpy, returns = input)]
fn same(data: Tensor) -> Tensor {
    data
}

#[memory_type(numpy, returns = input)]
fn positions(data: ArrayView1<'_, f32>, first: i64) -> Array1<i64> {
    (first..).take(data.len()).collect()
}

#[memory_type(numpy, returns = input, narrow = error)]
fn positions_of_64_bits(data: ArrayView1<'_, f32>) -> Array1<i64> {
    (0..).take(data.len()).collect()
}

#[memory_type(numpy, returns = jax)]
fn ramp(n: usize) -> Result<(Tensor, usize), Error> {
    let tensor = Tensor::from_vec((0..n as u16).collect(), &[n])?;
    Ok((tensor, n))
}

#[memory_type(numpy, returns = jax)]
fn for_jax(image: ArrayView2<'_, f32>, other: ArrayView2<'_, f32>) -> Array2<f32> {
    &image + &other
}

#[memory_type(numpy)]
fn masked(
    image: ArrayView1<'_, f32>,
    mask: Option<ArrayView1<'_, bool>>,
    fill: Option<f32>,
) -> Array1<f32> {
    let fill = fill.unwrap_or(0.0);
    match mask {
        Some(mask) => ndarray_zip(image, mask, fill),
        None => image.to_owned(),
    }
}

fn ndarray_zip(image: ArrayView1<'_, f32>, mask: ArrayView1<'_, bool>, fill: f32) -> Array1<f32> {
    image.iter().zip(&mask).map(|(x, keep)| if *keep { *x } else { fill }).collect()
}

#[derive(Debug)]
struct Negative(f32);

impl From<Negative> for PyErr {
    fn from(error: Negative) -> PyErr {
        pyo3::exceptions::PyArithmeticError::new_err(format!("{} is negative", error.0))
    }
}

#[memory_type(numpy, name = "root", unsafe(detach))]
fn square_root(data: ArrayView1<'_, f32>) -> Result<Array1<f32>, Negative> {
    match data.iter().find(|x| **x < 0.0) {
        Some(x) => Err(Negative(*x)),
        None => Ok(data.map(|x| x.sqrt())),
    }
}

/// Whether this thread is attached to the interpreter.
fn is_attached() -> bool {
    // SAFETY: any thread may ask.
    unsafe { pyo3::ffi::PyGILState_Check() == 1 }
}

#[memory_type(numpy, cast)]
fn attached(image: ArrayViewD<'_, f32>, other: Option<ArrayViewD<'_, f32>>) -> bool {
    let _ = (image, other);
    is_attached()
}

#[memory_type(numpy)]
fn attached_with_a_tensor(image: &Tensor) -> bool {
    let _ = image;
    is_attached()
}

#[memory_type(numpy)]
fn attached_when_it_writes(image: ArrayViewD<'_, f32>, out: ArrayViewMutD<'_, f32>) -> bool {
    let _ = (image, out);
    is_attached()
}

#[memory_type(numpy)]
fn attached_without_arrays(n: usize) -> bool {
    n > 0 && is_attached()
}

#[memory_type(numpy, cast, detach)]
fn attached_in_spite_of_detach(image: Option<ArrayViewD<'_, f32>>) -> bool {
    let _ = image;
    is_attached()
}

#[memory_type(numpy, unsafe(detach))]
fn attached_in_spite_of_unsafe_detach(image: &Tensor, out: ArrayViewMutD<'_, f32>) -> bool {
    let _ = (image, out);
    is_attached()
}

/// A result that borrows from an argument.
#[memory_type(numpy)]
fn label<'a>(image: ArrayViewD<'_, f32>, label: &'a str) -> &'a str {
    let _ = image;
    label
}

/// A value that cannot leave its thread, so that its function is not detached.
struct Local(std::rc::Rc<f32>);

impl<'py> FromPyObject<'_, 'py> for Local {
    type Error = PyErr;

    fn extract(object: pyo3::Borrowed<'_, 'py, PyAny>) -> PyResult<Local> {
        object.extract().map(|value| Local(std::rc::Rc::new(value)))
    }
}

#[memory_type(numpy)]
fn attached_for_a_value(image: ArrayViewD<'_, f32>, value: Local) -> bool {
    let _ = (image, value.0);
    is_attached()
}

static ENTERED: AtomicBool = AtomicBool::new(false);
static SIGNALLED: AtomicBool = AtomicBool::new(false);

/// Waits until another thread calls `signal`; false if none does.
#[memory_type(numpy)]
fn meanwhile(image: ArrayViewD<'_, f32>) -> bool {
    let _ = image;
    ENTERED.store(true, Ordering::SeqCst);
    let start = std::time::Instant::now();
    while !SIGNALLED.load(Ordering::SeqCst) && start.elapsed().as_secs() < 20 {
        std::thread::yield_now();
    }
    SIGNALLED.load(Ordering::SeqCst)
}

#[memory_type(numpy)]
fn entered() -> bool {
    ENTERED.load(Ordering::SeqCst)
}

#[memory_type(numpy)]
fn signal() {
    SIGNALLED.store(true, Ordering::SeqCst);
}

#[memory_type(numpy, cast)]
fn panics(data: ArrayView1<'_, f32>) -> f32 {
    data[data.len()]
}

// --- what the Python decorators have as well

#[memory_type(numpy, returns = input, cast, dtype_conversion = preserve)]
fn halved(image: ArrayViewD<'_, f32>) -> ArrayD<f32> {
    image.map(|x| x / 2.0)
}

#[memory_type(numpy, cast, dtype_conversion = context)]
fn halved_as_the_context_says(image: ArrayViewD<'_, f32>) -> ArrayD<f32> {
    image.map(|x| x / 2.0)
}

#[memory_type(numpy, cast, dtype_conversion = uint8, scaling = unit)]
fn as_bytes(image: ArrayViewD<'_, f64>) -> ArrayD<f64> {
    image.to_owned()
}

#[memory_type(numpy, returns = input, slice_by_slice)]
fn turned(image: ArrayView2<'_, f32>) -> Array2<f32> {
    image.t().to_owned()
}

#[memory_type(numpy, slice_by_slice, sliced(out))]
fn copied(image: ArrayView2<'_, f32>, mut out: ArrayViewMut2<'_, f32>) {
    out.assign(&image);
}

/// The largest value in a square of three pixels, and the size of the tile.
#[memory_type(numpy, returns = input, tiles(8, 8), halo = 1, workers = 2, join(concatenate, max))]
fn largest_of_tiles(image: ArrayView2<'_, f32>) -> (Array2<f32>, usize) {
    let (height, width) = image.dim();
    let near = |at: usize, length: usize| at.saturating_sub(1)..length.min(at + 2);
    let around = |(y, x): (usize, usize)| {
        let rows = near(y, height).flat_map(|y| near(x, width).map(move |x| (y, x)));
        rows.fold(f32::MIN, |largest, at| largest.max(image[at]))
    };
    (Array2::from_shape_fn((height, width), around), image.len())
}

#[memory_type(numpy, tiles(8, _), sliced(out))]
fn copied_by_tiles(image: ArrayView2<'_, f32>, mut out: ArrayViewMut2<'_, f32>) {
    out.assign(&image);
}

/// The slices of a volume in reverse order.
#[memory_type(numpy, returns = input, slice_by_slice, slice_axes(-3, -2, -1))]
fn reversed(volume: ArrayView3<'_, f32>) -> Array3<f32> {
    let (depth, height, width) = volume.dim();
    Array3::from_shape_fn((depth, height, width), |(z, y, x)| volume[(depth - 1 - z, y, x)])
}

/// An image, and the largest and the smallest size of a tile of it.
#[memory_type(numpy, returns = input, tiles(8, 8), halo = 1, pad = edge, join(concatenate, max, min))]
fn padded_tiles(image: ArrayView2<'_, f32>) -> (Array2<f32>, usize, usize) {
    (image.to_owned(), image.len(), image.len())
}

/// An image, and the largest size of a tile of it.
#[memory_type(numpy, returns = input, tiles = chunks, halo = 1, join(concatenate, max))]
fn tiles_of_chunks(image: ArrayView2<'_, f32>) -> (Array2<f32>, usize) {
    (image.to_owned(), image.len())
}

#[memory_type(numpy, dtype_conversion = uint16, scaling = unit, range(0, 4095))]
fn in_12_bits(image: ArrayView2<'_, f32>) -> Array2<f32> {
    image.to_owned()
}

fn taken() -> PyErr {
    // More memory than any machine has.
    Vec::<u8>::new().try_reserve_exact(isize::MAX as usize).expect_err("that much memory");
    pyo3::exceptions::PyMemoryError::new_err("no memory for the whole image")
}

#[memory_type(numpy, split_axis = 0, sliced(weight), returns = input)]
fn hungry(
    image: ArrayView2<'_, f32>,
    weight: ArrayView1<'_, f32>,
    rows: usize,
) -> Result<Array2<f32>, PyErr> {
    if image.nrows() > rows {
        return Err(taken());
    }
    let mut result = image.to_owned();
    result.rows_mut().into_iter().zip(weight).for_each(|(mut row, weight)| row *= *weight);
    Ok(result)
}

/// A mask and its count, of at most `rows` rows.
#[memory_type(numpy, split_axis = 0, join(concatenate, sum))]
fn positive(image: ArrayView2<'_, f32>, rows: usize) -> Result<(Array2<bool>, usize), PyErr> {
    let mask = image.mapv(|x| x > 0.0);
    let count = mask.iter().filter(|positive| **positive).count();
    if image.nrows() > rows { Err(taken()) } else { Ok((mask, count)) }
}

/// The largest element, of at most `rows` rows.
#[memory_type(numpy, split_axis = 0, join(max))]
fn maximum(image: ArrayView2<'_, f32>, rows: usize) -> Result<f32, PyErr> {
    let largest = image.iter().fold(f32::MIN, |most, x| most.max(*x));
    if image.nrows() > rows { Err(taken()) } else { Ok(largest) }
}

#[memory_type(numpy)]
fn frugal(image: ArrayViewD<'_, f32>) -> ArrayD<f32> {
    -&image
}

#[memory_type(torch, on_oom(host), host = frugal)]
fn exhausted(_image: Tensor) -> Result<Tensor, PyErr> {
    Err(taken())
}

#[memory_type(numpy, on_oom())]
fn resigned(image: ArrayView2<'_, f32>) -> Result<Array2<f32>, PyErr> {
    hungry(image, ArrayView1::from(&[]), 0)
}

/// Adds 1 to `out`, and then runs out of memory.
#[memory_type(numpy, on_oom(clear))]
fn written(mut out: ArrayViewMutD<'_, f32>) -> Result<(), PyErr> {
    out += 1.0;
    Err(taken())
}

#[memory_type(jax, narrow = error)]
fn class_name_if_not_narrowed(image: &Bound<'_, PyAny>) -> PyResult<String> {
    class_name(image)
}

#[memory_type(torch, input = jax)]
fn input_class(image: &Bound<'_, PyAny>) -> PyResult<String> {
    class_name(image)
}

#[memory_type(pyclesperanto)]
fn uploaded(n: usize) -> Array2<f32> {
    Array2::ones((n, n))
}

/// An array as torch's.
#[memory_type(torch)]
fn through(data: Tensor) -> Tensor {
    data
}

/// Not an array, although its name starts like one.
#[derive(IntoPyObject)]
struct ArrayRange {
    least: f32,
    most: f32,
}

#[memory_type(numpy)]
fn range(image: ArrayViewD<'_, f32>) -> ArrayRange {
    let range = |choose: fn(f32, f32) -> f32| image.iter().copied().reduce(choose).unwrap_or(0.0);
    ArrayRange { least: range(f32::min), most: range(f32::max) }
}

/// The tensor itself, of the class that all extension modules share.
#[memory_type(numpy)]
fn as_object(py: Python<'_>, n: usize) -> PyResult<Bound<'_, PyAny>> {
    Tensor::from_vec(vec![1_u8; n], &[n])?.into_pyobject(py)
}

/// A module that declares no functions.
#[pymodule]
fn bare(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(aliasing::call_while_read, module)?)
}

#[pymodule]
fn extension(module: &Bound<'_, PyModule>) -> PyResult<()> {
    by_hand::add(module)?;
    tensors::add(module)?;
    module.add_class::<methods::Scale>()?;
    module.add_class::<methods::Linted>()?;
    module.add_class::<methods::Plain>()?;
    module.add_class::<wrapped::Gain>()?;
    module.add_class::<methods::Elsewhere>()?;
    module.add("Integer", module.py().get_type::<pyo3::types::PyInt>())?;
    arraybridge_runtime::python::export(module)
}
