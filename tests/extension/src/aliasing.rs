//! Functions that would see changing memory behind a reference, if arguments were not claimed.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arraybridge_runtime::prelude::*;
use pyo3::Borrowed;
use pyo3::prelude::*;

static KEPT: Mutex<Option<Tensor>> = Mutex::new(None);

fn kept() -> MutexGuard<'static, Option<Tensor>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a tensor beyond the call.
#[memory_type(numpy)]
fn keep(data: Option<Tensor>) {
    *kept() = data;
}

/// What one reference sees before and after the other one is written through.
fn before_and_after(read: &f32, write: &mut f32) -> (f32, f32) {
    let before = *read;
    *write += 1.0;
    (before, *read)
}

/// Reads the tensor that was kept while it writes to `out`.
#[memory_type(numpy)]
fn read_kept_and_write(mut out: ArrayViewMut1<'_, f32>) -> Result<(f32, f32)> {
    let kept = kept();
    let kept = kept.as_ref().ok_or_else(|| Error::Value("nothing was kept".into()))?;
    let read = kept.view::<f32>()?;
    Ok(before_and_after(&read[[0]], &mut out[0]))
}

/// Reads a tensor that is made during the call while it writes to `out`.
#[memory_type(torch)]
fn read_made_and_write(
    data: Bound<'_, PyAny>,
    mut out: ArrayViewMut1<'_, f32>,
) -> Result<(f32, f32)> {
    let made = Tensor::from_py(&data)?;
    let read = made.view::<f32>()?;
    Ok(before_and_after(&read[[0]], &mut out[0]))
}

/// Calls back while it reads the tensor that was kept.
#[memory_type(numpy)]
fn call_while_kept_is_read(callback: &Bound<'_, PyAny>) -> Result<()> {
    let kept = kept();
    let kept = kept.as_ref().ok_or_else(|| Error::Value("nothing was kept".into()))?;
    let read = kept.view::<f32>()?;
    callback.call0()?;
    drop(read);
    Ok(())
}

/// Calls back while it reads a tensor, in a module that declares nothing.
#[pyfunction]
pub fn call_while_read(data: &Bound<'_, PyAny>, callback: &Bound<'_, PyAny>) -> PyResult<()> {
    let tensor = Tensor::from_py(data)?;
    let read = tensor.view::<f32>()?;
    callback.call0()?;
    drop(read);
    Ok(())
}

/// A value that holds a Python object.
struct Callback(Py<PyAny>);

impl<'py> FromPyObject<'_, 'py> for Callback {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Callback> {
        Ok(Callback(object.to_owned().unbind()))
    }
}

/// The sum of an array after a callback that no token of the signature names.
#[memory_type(numpy)]
fn sum_after_value(image: ArrayViewD<'_, f32>, callback: Callback) -> PyResult<f32> {
    Python::attach(|py| callback.0.call0(py))?;
    Ok(image.sum())
}

/// The sum of an array after a callback.
#[memory_type(numpy)]
fn sum_after(image: ArrayViewD<'_, f32>, callback: &Bound<'_, PyAny>) -> PyResult<f32> {
    callback.call0()?;
    Ok(image.sum())
}

/// The sum of an array; the other argument is only opened.
#[memory_type(numpy)]
fn sum_of_first(image: ArrayViewD<'_, f32>, other: ArrayViewD<'_, f32>) -> f32 {
    let _ = other;
    image.sum()
}

/// The bytes of a mask after a callback.
#[memory_type(numpy)]
fn mask_after(mask: ArrayViewD<'_, bool>, callback: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    callback.call0()?;
    Ok(mask.iter().map(|set| u8::from(*set)).collect())
}

/// The bytes of a mask that is a tensor, after a callback.
#[memory_type(numpy)]
fn mask_of_a_tensor_after(mask: &Tensor, callback: &Bound<'_, PyAny>) -> Result<Vec<u8>> {
    let mask = mask.view::<bool>()?;
    callback.call0()?;
    Ok(mask.iter().map(|set| u8::from(*set)).collect())
}

/// The bytes of the first mask.
#[memory_type(numpy)]
fn first_mask(mask: ArrayViewD<'_, bool>, other: ArrayViewD<'_, f32>) -> Vec<u8> {
    let _ = other;
    mask.iter().map(|set| u8::from(*set)).collect()
}

/// A name that the attribute does not know.
type Flag = bool;

#[memory_type(numpy)]
fn clear_after(mut mask: ArrayViewMutD<'_, Flag>, callback: &Bound<'_, PyAny>) -> PyResult<()> {
    callback.call0()?;
    mask.fill(false);
    Ok(())
}

#[memory_type(numpy)]
fn clear(mut mask: ArrayViewMutD<'_, bool>) {
    mask.fill(false);
}

static WAITING: AtomicUsize = AtomicUsize::new(0);
static RELEASED: AtomicBool = AtomicBool::new(false);

/// Waits, detached, until `release` is called, and then reads; `None` if that takes too long.
#[memory_type(numpy, unsafe(detach))]
fn wait_for_release(
    image: Option<ArrayViewD<'_, f32>>,
    out: Option<ArrayViewMutD<'_, f32>>,
) -> Option<f32> {
    RELEASED.store(false, Ordering::SeqCst);
    WAITING.fetch_add(1, Ordering::SeqCst);
    let start = Instant::now();
    while !RELEASED.load(Ordering::SeqCst) && start.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(1));
    }
    WAITING.fetch_sub(1, Ordering::SeqCst);
    let sum = image.map(|image| image.sum()).or_else(|| out.map(|out| out.sum()));
    sum.filter(|_| RELEASED.load(Ordering::SeqCst))
}

/// How many calls of `wait_for_release` are waiting.
#[memory_type(numpy)]
fn waiting() -> usize {
    WAITING.load(Ordering::SeqCst)
}

#[memory_type(numpy)]
fn release() {
    RELEASED.store(true, Ordering::SeqCst);
}

/// Writes to two arrays, and calls back while it could.
#[memory_type(numpy)]
fn fill_both(
    mut left: ArrayViewMutD<'_, f32>,
    mut right: ArrayViewMutD<'_, f32>,
    callback: &Bound<'_, PyAny>,
) -> PyResult<()> {
    left.fill(0.0);
    right.fill(0.0);
    callback.call0().map(drop)
}

/// Writes to an array, and calls back while it could.
#[memory_type(numpy)]
fn fill_one(mut data: ArrayViewMutD<'_, f32>, callback: &Bound<'_, PyAny>) -> PyResult<()> {
    data.fill(0.0);
    callback.call0().map(drop)
}

/// The sum of two arrays of different types.
#[memory_type(numpy)]
fn sum_of_both(left: ArrayViewD<'_, f32>, right: ArrayViewD<'_, f64>) -> f64 {
    f64::from(left.sum()) + right.sum()
}
