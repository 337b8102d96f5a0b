//! Copies and casts of described host memory into new buffers.

use crate::error::{Error, Result};
use crate::memory::view::View;
use arraybridge_host::buffer::HostBuffer;
use arraybridge_host::cast::{Cast, CastReport, Scaling, cast_strided};
use arraybridge_host::dtype::DType;
use arraybridge_host::parallel::Threads;
use arraybridge_host::{copy, layout};

/// The number of bytes from which on the work takes tens of microseconds, and is split over
/// threads.
pub const LARGE: usize = 1 << 18;

/// Casts a host array into a new buffer, contiguous and in one pass whatever its layout. The report counts
/// what was lost.
///
/// Assumes that nobody writes to the memory meanwhile: see "Assumptions about Python threads" in
/// ARCHITECTURE.md.
///
/// # Errors
///
/// [`Error::Memory`] if the allocation fails; [`Error::Value`] for complex to real, and for memory on a
/// device.
pub fn cast_to_buffer(
    view: &View,
    dtype: DType,
    scaling: Scaling,
) -> Result<(HostBuffer, CastReport)> {
    expect_host(view)?;
    let mut buffer = buffer_for(view.shape(), dtype)?;
    let threads = threads(buffer.len().max(view.nbytes()));
    let cast = Cast { dtype, scaling, threads };
    // SAFETY: the buffer is new and has room for the result. The view's owner keeps its memory alive, and
    // that nobody writes to it meanwhile is assumed.
    let report = unsafe { cast_strided(buffer.as_mut_ptr(), view.elements(), cast) };
    Ok((buffer, report?))
}

/// Copies a host array into a new buffer, contiguous and in the machine's byte order.
///
/// Assumes what [`cast_to_buffer`] assumes.
///
/// # Errors
///
/// [`Error::Memory`] if the allocation fails; [`Error::Value`] for memory on a device.
pub fn copy_to_buffer(view: &View) -> Result<HostBuffer> {
    expect_host(view)?;
    let mut buffer = buffer_for(view.shape(), view.dtype())?;
    let threads = threads(buffer.len());
    // SAFETY: the buffer is new and has room for the copy. The view's owner keeps its memory alive, and
    // that nobody writes to it meanwhile is assumed.
    unsafe { copy::gather(buffer.as_mut_ptr(), view.elements(), threads) };
    Ok(buffer)
}

/// The number of integers in a host array that a cast to a floating point dtype rounds.
///
/// Assumes what [`cast_to_buffer`] assumes.
///
/// # Errors
///
/// [`Error::Value`] for memory on a device.
pub fn count_rounded(view: &View, dtype: DType) -> Result<u64> {
    expect_host(view)?;
    let threads = threads(view.nbytes());
    // SAFETY: the view's owner keeps its memory alive, and that nobody writes to it meanwhile is assumed.
    Ok(unsafe { arraybridge_host::cast::count_rounded(view.elements(), dtype, threads) }?)
}

fn expect_host(view: &View) -> Result<()> {
    match view.is_on_host() {
        true => Ok(()),
        false => Err(Error::Value("the array is on a device; copy it to the host first".into())),
    }
}

fn buffer_for(shape: &[usize], dtype: DType) -> Result<HostBuffer> {
    let bytes = layout::contiguous_bytes(shape, dtype.size()).unwrap_or(usize::MAX);
    Ok(HostBuffer::new(bytes)?)
}

fn threads(bytes: usize) -> Threads {
    Threads::for_large(bytes >= LARGE)
}
