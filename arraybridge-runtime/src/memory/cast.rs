//! Copies and casts of host arrays, with the interpreter released while large ones are worked on.

use pyo3::prelude::*;

use crate::error::Result;
use arraybridge_host::cast::{CastReport, Scaling};
use arraybridge_host::dtype::DType;
use arraybridge_host::layout;
use arraybridge_tensor::memory::copy::{self, LARGE};
use arraybridge_tensor::memory::source::{Slot, Source};
use arraybridge_tensor::memory::view::View;

/// The number of bytes from which on the work is done with the interpreter released. It takes tens
/// of microseconds then, and releasing the interpreter a tenth of one.
pub const DETACH_FROM: usize = LARGE;

/// Casts a host array into new, contiguous memory, in one pass whatever its layout. The report counts
/// what was lost.
pub fn cast(
    py: Python<'_>,
    source: &Source,
    dtype: DType,
    scaling: Scaling,
) -> Result<(Source, CastReport)> {
    let view = source.view();
    let work = || copy::cast_to_buffer(view, dtype, scaling);
    let (buffer, report) = run(py, is_large(view, dtype), work)?;
    // SAFETY: the cast wrote every element.
    Ok((unsafe { Source::from_buffer(buffer, dtype, view.shape().into()) }, report))
}

/// The number of integers in a host array that a cast to a floating point dtype rounds.
pub fn rounded(py: Python<'_>, source: &Source, dtype: DType) -> Result<u64> {
    let view = source.view();
    Ok(run(py, is_large(view, view.dtype()), || copy::count_rounded(view, dtype))?)
}

/// Copies a host array into new, contiguous memory, in the machine's byte order.
pub fn copied(py: Python<'_>, source: &Source) -> Result<Source> {
    let (view, dtype) = (source.view(), source.view().dtype());
    let buffer = run(py, is_large(view, dtype), || copy::copy_to_buffer(view))?;
    // SAFETY: the copy wrote every element.
    Ok(unsafe { Source::from_buffer(buffer, dtype, view.shape().into()) })
}

/// Does what [`copied`] does without releasing the interpreter, so that no Python code writes to the memory
/// meanwhile.
pub fn copied_attached(_py: Python<'_>, source: &Source) -> Result<Source> {
    let view = source.view();
    let buffer = copy::copy_to_buffer(view)?;
    // SAFETY: the copy wrote every element.
    Ok(unsafe { Source::from_buffer(buffer, view.dtype(), view.shape().into()) })
}

/// The bytes of the elements of a host array, in C order and the machine's byte order.
pub fn bytes_of(py: Python<'_>, source: &Source) -> Result<Vec<u8>> {
    let copy = copied(py, source)?;
    let view = copy.view();
    // SAFETY: the copy is contiguous, has this many bytes, and is alive.
    Ok(unsafe { std::slice::from_raw_parts(view.data(), view.nbytes()) }.to_vec())
}

/// Replaces the memory in a slot by a copy, perhaps of another dtype, and returns how many values were
/// clipped. The description is changed where it is.
///
/// # Errors
///
/// The errors of [`cast`] and [`copied`]. The slot is unchanged then.
pub fn gather(py: Python<'_>, slot: &mut Slot, to: Option<DType>) -> Result<u64> {
    let view = slot.view();
    let dtype = to.unwrap_or(view.dtype());
    let large = is_large(view, dtype);
    let (buffer, clipped) = match dtype == view.dtype() {
        true => (run(py, large, || copy::copy_to_buffer(view))?, 0),
        false => {
            let work = || copy::cast_to_buffer(view, dtype, Scaling::Clamp);
            let (buffer, report) = run(py, large, work)?;
            (buffer, report.clipped)
        }
    };
    // SAFETY: every element was written.
    unsafe { slot.set_buffer(buffer, dtype) };
    Ok(clipped)
}

/// Returns whether an array, or what it becomes, has many bytes.
#[inline]
fn is_large(view: &View, dtype: DType) -> bool {
    let size = view.dtype().size().max(dtype.size());
    layout::contiguous_bytes(view.shape(), size).is_none_or(|bytes| bytes >= DETACH_FROM)
}

/// Runs the work, with the interpreter released if it is large.
fn run<T: Send>(py: Python<'_>, large: bool, work: impl FnOnce() -> T + Send) -> T {
    if large { py.detach(work) } else { work() }
}

#[cfg(test)]
mod tests {
    use dlpark::ffi::{DLDevice, DLDeviceType};

    use super::*;
    use crate::error::Error;

    #[test]
    fn memory_on_a_device_is_not_read() {
        let (view, owner) = Source::from_slice(&[1_u8, 2], &[2]).unwrap().into_parts();
        let cuda = DLDevice { device_type: DLDeviceType::CUDA, device_id: 0 };
        // SAFETY: the owner is that of the view's memory.
        let source = unsafe { Source::new(view.on(cuda), owner) };
        Python::attach(|py| {
            assert!(matches!(copied(py, &source), Err(Error::Value(_))));
            let cast = cast(py, &source, DType::Uint16, Scaling::Clamp);
            assert!(matches!(cast, Err(Error::Value(_))));
        });
    }
}
