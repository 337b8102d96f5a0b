//! Tensors in CUDA memory: made from cudarc's slices, and ordered with their consumers' streams.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, result, sys};
use dlpark::ffi::{DLDevice, DLDeviceType};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use super::{Tensor, expect_len};
use crate::cuda::driver::{self, LEGACY_STREAM, checked, wait_for_device};
use crate::error::{Error, Result};
use crate::host::buffer::HostBuffer;
use crate::host::layout::{Strides, contiguous_strides};
use crate::interpreter::detached::wait_detached;
use crate::memory::element::Element;
use crate::memory::source::{Owner, SharedSource, Source};
use crate::memory::view::View;

/// The stream on which a tensor's memory was written; `None` is the legacy default stream.
pub(super) type WrittenOn = Option<Arc<CudaStream>>;

/// Device memory. The slice frees it on the stream on which it was allocated, as CuPy and torch do.
/// [`AfterDevice`] is for consumers on other streams.
struct DeviceMemory<T: Element>(ManuallyDrop<CudaSlice<T>>);

impl<T: Element> Drop for DeviceMemory<T> {
    fn drop(&mut self) {
        let waits = !self.0.context().has_async_alloc();
        let free = || {
            // The handle of the legacy default stream stands for that of the current context. After a failure
            // there is nothing else to try.
            let bound = self.0.context().bind_to_thread();
            // SAFETY: the slice is dropped once, here.
            unsafe { ManuallyDrop::drop(&mut self.0) };
            bound
        };
        // Without an allocator in the order of streams, the slice waits for its stream.
        let _ = if waits { wait_detached(|| checked(free)) } else { checked(free) };
    }
}

/// Memory that is lent to a consumer on another stream than that of the memory.
///
/// A consumer names the stream that it starts on, may go on to use others, and may have destroyed that one by
/// the time it releases the memory. So all work of the device is waited for then.
pub(super) struct AfterDevice {
    index: usize,
    // Fields are dropped after the wait in `drop`.
    _owner: Owner,
}

impl Drop for AfterDevice {
    fn drop(&mut self) {
        let _ = wait_for_device(self.index);
    }
}

impl AfterDevice {
    /// The same memory, released when the device's work is done.
    pub(super) fn of(source: Source) -> Source {
        let (view, owner) = source.into_parts();
        let index = view.device().device_id as usize;
        // SAFETY: the new owner holds the one before.
        unsafe { Source::new(view, Owner::Value(Box::new(AfterDevice { index, _owner: owner }))) }
    }
}

/// Memory that may be used on the legacy default stream, which is made to wait for the stream that wrote it.
///
/// # Errors
///
/// [`Error::Cuda`] if CUDA reports a failure.
pub(super) fn settled(source: Source, stream: &WrittenOn) -> Result<Source> {
    if source.view().is_on_host() {
        return Ok(source);
    }
    if stream.is_some() {
        let index = source.view().device().device_id as usize;
        // SAFETY: the tensor keeps its stream alive, and every device has a legacy default stream.
        unsafe { driver::order(index, stream_handle(stream.as_ref()), LEGACY_STREAM) }?;
    }
    Ok(AfterDevice::of(source))
}

impl Tensor {
    /// A tensor of device memory, in row-major order, without a copy. Consumers wait for the work on the
    /// slice's stream.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] if the shape has another number of elements
    /// than the slice.
    pub fn from_cuda<T: Element>(slice: CudaSlice<T>, shape: &[usize]) -> Result<Tensor> {
        expect_len(shape, T::DTYPE, slice.len())?;
        let stream = slice.stream().clone();
        // This makes the slice's stream wait for writes on other streams.
        let data = slice.device_ptr(&stream).0 as usize as *mut u8;
        let index = stream.context().ordinal() as i32;
        let owner = Owner::Value(Box::new(DeviceMemory(ManuallyDrop::new(slice))));
        let device = DLDevice { device_type: DLDeviceType::CUDA, device_id: index };
        let strides = contiguous_strides(shape, size_of::<T>());
        // SAFETY: the slice has the elements of the shape, and the owner has the slice.
        let source = unsafe {
            Source::new(View::new(data, T::DTYPE, shape.into(), strides).on(device), owner)
        };
        Ok(Tensor { stream: Some(stream), ..source.into() })
    }
}

/// The handle of a producer's stream as a number, in which 1 is the legacy default stream.
pub(super) fn stream_handle(stream: Option<&Arc<CudaStream>>) -> usize {
    stream.map_or(LEGACY_STREAM, |stream| (stream.cu_stream() as usize).max(LEGACY_STREAM))
}

/// Makes a consumer's stream wait for the producer's.
///
/// # Errors
///
/// `RuntimeError` if CUDA reports a failure.
pub(super) fn order_streams(
    device: i32,
    producer: Option<&Arc<CudaStream>>,
    consumer: usize,
) -> PyResult<()> {
    // SAFETY: the producer's stream is alive or the legacy default one, and DLPack requires the consumer to
    // pass the handle of a stream of the device.
    Ok(unsafe { driver::order(device as usize, stream_handle(producer), consumer) }?)
}

/// Copies a contiguous device array to the host, once the producer's stream has written it.
///
/// # Errors
///
/// `BufferError` if the array is strided, `MemoryError` if the allocation fails, `RuntimeError` if CUDA
/// reports a failure.
pub(super) fn to_host(
    memory: &SharedSource,
    producer: Option<&Arc<CudaStream>>,
) -> PyResult<Source> {
    let view = memory.view();
    if view.layout() != Strides::Contiguous {
        let text =
            "the device array is strided; make it contiguous with a framework of that device first";
        return Err(PyBufferError::new_err(text));
    }
    let mut buffer = HostBuffer::new(view.nbytes()).map_err(Error::from)?;
    let copy = || {
        driver::context(view.device().device_id as usize)?.bind_to_thread()?;
        // SAFETY: the stream is alive or the legacy default one. The array is contiguous, its owner keeps
        // it alive, and the buffer has as many bytes, which are written before they are read.
        unsafe {
            result::stream::synchronize(stream_handle(producer) as sys::CUstream)?;
            let bytes = buffer.len();
            std::ptr::write_bytes(buffer.as_mut_ptr(), 0, bytes);
            let bytes = std::slice::from_raw_parts_mut(buffer.as_mut_ptr(), bytes);
            result::memcpy_dtoh_sync(bytes, view.data() as sys::CUdeviceptr)
        }
    };
    wait_detached(|| checked(copy))?;
    // SAFETY: all bytes are written.
    Ok(unsafe { Source::from_buffer(buffer, view.dtype(), view.shape().into()) })
}
