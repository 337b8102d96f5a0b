//! Copies and casts of host arrays into new memory.

use pyo3::prelude::*;

use crate::host::buffer::{AllocError, HostBuffer};
use crate::host::cast::{CastReport, Scaling, StridedArray, cast_strided, count_rounded};
use crate::host::dtype::DType;
use crate::host::{self, copy, layout};
use crate::interpreter::error::{Error, Result};
use crate::memory::source::{Slot, Source};
use crate::memory::view::View;

/// From this many bytes on, the work is done with the interpreter released. It takes tens of
/// microseconds then, and releasing the interpreter a tenth of one.
pub const DETACH_FROM: usize = 1 << 18;

/// Casts a host array into new, contiguous memory, in one pass whatever its layout. The report counts
/// what was lost.
///
/// # Errors
///
/// `MemoryError` if the allocation fails; [`Error::Value`] for complex to real, and for memory on a
/// device.
pub fn cast(
    py: Python<'_>,
    source: &Source,
    dtype: DType,
    scaling: Scaling,
) -> Result<(Source, CastReport)> {
    let view = source.view();
    let (buffer, report) = cast_to_buffer(py, view, dtype, scaling)?;
    // SAFETY: the cast wrote every element.
    Ok((unsafe { Source::from_buffer(buffer, dtype, view.shape().into()) }, report))
}

/// The number of integers in a host array that a cast to a floating point dtype rounds.
///
/// # Errors
///
/// [`Error::Value`] for memory on a device.
pub fn rounded(py: Python<'_>, source: &Source, dtype: DType) -> Result<u64> {
    let view = source.view();
    expect_host(view)?;
    let large = view.nbytes() >= DETACH_FROM;
    let threads = threads(py, large);
    // SAFETY: the view's owner keeps its memory alive. That nobody writes to it meanwhile is assumed: see
    // "What is assumed of Python threads" in ARCHITECTURE.md.
    Ok(run(py, large, || unsafe { count_rounded(strided(view), dtype, threads) }))
}

/// Copies a host array into new, contiguous memory, in the machine's byte order.
///
/// # Errors
///
/// `MemoryError` if the allocation fails; [`Error::Value`] for memory on a device.
pub fn copied(py: Python<'_>, source: &Source) -> Result<Source> {
    let view = source.view();
    let buffer = copy_to_buffer(py, view)?;
    // SAFETY: the copy wrote every element.
    Ok(unsafe { Source::from_buffer(buffer, view.dtype(), view.shape().into()) })
}

/// Replaces the memory in a slot by a copy, perhaps of another dtype, and returns how many values were
/// clipped. The description is changed where it is.
///
/// # Errors
///
/// As [`cast`] and [`copied`]. The slot is unchanged then.
pub fn gather(py: Python<'_>, slot: &mut Slot, to: Option<DType>) -> Result<u64> {
    let view = slot.view();
    let dtype = to.unwrap_or(view.dtype());
    let (buffer, clipped) = match dtype == view.dtype() {
        true => (copy_to_buffer(py, view)?, 0),
        false => {
            let (buffer, report) = cast_to_buffer(py, view, dtype, Scaling::Clamp)?;
            (buffer, report.clipped)
        }
    };
    // SAFETY: every element was written.
    unsafe { slot.set_buffer(buffer, dtype) };
    Ok(clipped)
}

fn cast_to_buffer(
    py: Python<'_>,
    view: &View,
    dtype: DType,
    scaling: Scaling,
) -> Result<(HostBuffer, CastReport)> {
    expect_host(view)?;
    let mut buffer = buffer_for(view.shape(), dtype)?;
    let large = buffer.len().max(view.nbytes()) >= DETACH_FROM;
    let threads = threads(py, large);
    let target = &mut buffer;
    let work = || {
        let source = strided(view);
        // SAFETY: the buffer is new and has room for the result. The view's owner keeps its memory
        // alive. That nobody writes to it meanwhile is assumed: see "What is assumed of Python threads"
        // in ARCHITECTURE.md.
        unsafe { cast_strided(target.as_mut_ptr(), dtype, source, scaling, threads) }
    };
    let report = run(py, large, work).map_err(|error| Error::Value(error.to_string()))?;
    Ok((buffer, report))
}

fn strided(view: &View) -> StridedArray<'_> {
    StridedArray {
        data: view.data(),
        shape: view.shape(),
        strides: view.strides(),
        dtype: view.dtype(),
        swap: view.swap_unit(),
    }
}

fn copy_to_buffer(py: Python<'_>, view: &View) -> Result<HostBuffer> {
    expect_host(view)?;
    let dtype = view.dtype();
    let mut buffer = buffer_for(view.shape(), dtype)?;
    let large = buffer.len() >= DETACH_FROM;
    let threads = threads(py, large);
    let target = &mut buffer;
    let work = || {
        let (shape, strides, swap) = (view.shape(), view.strides(), view.swap_unit());
        // SAFETY: the buffer is new and has room for the copy. The view's owner keeps its memory
        // alive. That nobody writes to it meanwhile is assumed: see "What is assumed of Python threads"
        // in ARCHITECTURE.md.
        unsafe {
            let to = target.as_mut_ptr();
            copy::gather(to, view.data(), shape, strides, dtype.size(), swap, threads);
        }
    };
    run(py, large, work);
    Ok(buffer)
}

fn expect_host(view: &View) -> Result<()> {
    match view.is_on_host() {
        true => Ok(()),
        false => Err(Error::Value("the array is on a device; copy it to the host first".into())),
    }
}

/// Runs the work, with the interpreter released if it is large.
fn run<T: Send>(py: Python<'_>, large: bool, work: impl FnOnce() -> T + Send) -> T {
    if large { py.detach(work) } else { work() }
}

fn buffer_for(shape: &[usize], dtype: DType) -> Result<HostBuffer> {
    let bytes = layout::contiguous_bytes(shape, dtype.size()).unwrap_or(usize::MAX);
    HostBuffer::new(bytes).map_err(no_memory)
}

/// The number is found out while the interpreter is held. A process that is forked while another thread finds it
/// out would wait for that thread, which it does not have.
fn threads(_attached: Python<'_>, large: bool) -> usize {
    if large { host::threads() } else { 1 }
}

/// A failed allocation as `MemoryError`.
pub fn no_memory(error: AllocError) -> Error {
    Error::Python(pyo3::exceptions::PyMemoryError::new_err(error.to_string()))
}

#[cfg(test)]
mod tests {
    use dlpark::ffi::{DLDevice, DLDeviceType};

    use super::*;

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

    #[test]
    fn a_copy_is_contiguous_and_in_the_order_of_the_axes() {
        let array = ndarray::array![[1_u16, 2, 3], [4, 5, 6]].reversed_axes();
        let copy = Python::attach(|py| copied(py, &Source::from(array))).unwrap();
        assert_eq!((copy.view().shape(), copy.view().strides()), (&[3, 2][..], &[4, 2][..]));
        // SAFETY: the copy has six elements, aligned for them.
        let elements = unsafe { std::slice::from_raw_parts(copy.view().data().cast::<u16>(), 6) };
        assert_eq!(elements, [1, 4, 2, 5, 3, 6]);
    }
}
