//! Tensors of CUDA memory: made of cudarc's slices, and ordered with their consumers' streams.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr, DriverError, result, sys};
use dlpark::ffi::{DLDevice, DLDeviceType};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use super::{Tensor, expect_len};
use crate::cuda::driver::checked;
use crate::host::buffer::HostBuffer;
use crate::host::layout::{Strides, contiguous_strides};
use crate::interpreter::detached::wait_detached;
use crate::interpreter::error::Result;
use crate::memory::cast::no_memory;
use crate::memory::element::Element;
use crate::memory::source::{Owner, SharedSource, Source};
use crate::memory::view::View;

/// The stream that a tensor was written on.
pub(super) type Stream = Arc<CudaStream>;

/// Device memory, and its context. A consumer's kernel may still read it when the last reference
/// goes, on a stream that is not known here: a consumer names the stream that it begins on, not those
/// that it goes on to use, and that one may be destroyed by now. So the device's work is waited for
/// first. The slice then frees it on the stream that it was allocated on.
struct Memory<T> {
    slice: ManuallyDrop<CudaSlice<T>>,
    context: Arc<CudaContext>,
}

impl<T> Drop for Memory<T> {
    fn drop(&mut self) {
        let free = || {
            // A context that reports a failure here is past being waited for.
            let waited = self.context.synchronize();
            // SAFETY: it is dropped once, here.
            unsafe { ManuallyDrop::drop(&mut self.slice) };
            waited
        };
        let _ = wait_detached(|| checked(free));
    }
}

impl Tensor {
    /// A tensor of device memory, in row-major order, without a copy. Consumers are ordered after
    /// the work on the slice's stream.
    ///
    /// # Errors
    ///
    /// [`Error::Value`](crate::interpreter::error::Error::Value) when the shape has another number of elements
    /// than the slice.
    pub fn from_cuda<T: Element>(slice: CudaSlice<T>, shape: &[usize]) -> Result<Tensor> {
        expect_len(shape, T::DTYPE, slice.len())?;
        let stream = slice.stream().clone();
        // Waits on the slice's stream for what was written on others.
        let data = slice.device_ptr(&stream).0 as usize as *mut u8;
        let context = stream.context().clone();
        let index = context.ordinal() as i32;
        let owner = Owner::Value(Box::new(Memory { slice: ManuallyDrop::new(slice), context }));
        let device = DLDevice { device_type: DLDeviceType::CUDA, device_id: index };
        let strides = contiguous_strides(shape, size_of::<T>());
        // SAFETY: the slice has the elements of the shape, and the owner holds it.
        let source = unsafe {
            Source::new(View::new(data, T::DTYPE, shape.into(), strides).on(device), owner)
        };
        Ok(Tensor { source, stream: Some(stream) })
    }
}

/// The raw handle of a producer's stream, as DLPack and the array interface number it.
pub(super) fn handle(stream: Option<&Stream>) -> usize {
    stream.map_or(1, |stream| (stream.cu_stream() as usize).max(1))
}

/// Makes a consumer's stream wait for the producer's.
pub(super) fn order(device: i32, producer: Option<&Stream>, consumer: usize) -> PyResult<()> {
    let producer_handle = handle(producer);
    if producer_handle == consumer {
        return Ok(());
    }
    let ordered = checked(|| {
        let context = context(device, producer)?;
        let event = context.new_event(None)?;
        // SAFETY: the context is current, the producer's stream is alive or the legacy one, and
        // the consumer's handle is what DLPack has a consumer pass.
        unsafe {
            result::event::record(event.cu_event(), producer_handle as sys::CUstream)?;
            let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
            result::stream::wait_event(consumer as sys::CUstream, event.cu_event(), flags)
        }
    });
    Ok(ordered?)
}

fn context(device: i32, producer: Option<&Stream>) -> Result<Arc<CudaContext>, DriverError> {
    let context = match producer {
        Some(stream) => stream.context().clone(),
        None => crate::cuda::driver::context(device as usize)?,
    };
    context.bind_to_thread()?;
    Ok(context)
}

/// A contiguous device array, copied to the host when it is ready.
pub(super) fn to_host(memory: &SharedSource, producer: Option<&Stream>) -> PyResult<Source> {
    let view = memory.view();
    if view.layout() != Strides::Contiguous {
        let text = "a strided device array can only be copied by a framework of that device";
        return Err(PyBufferError::new_err(text));
    }
    let mut buffer = HostBuffer::new(view.nbytes()).map_err(no_memory)?;
    let copy = || {
        context(view.device().device_id, producer)?;
        // SAFETY: the stream is alive or the legacy one; the buffer has the bytes of the array,
        // which its owner keeps alive, and is written before it is read.
        unsafe {
            result::stream::synchronize(handle(producer) as sys::CUstream)?;
            let bytes = buffer.len();
            std::ptr::write_bytes(buffer.as_mut_ptr(), 0, bytes);
            let bytes = std::slice::from_raw_parts_mut(buffer.as_mut_ptr(), bytes);
            result::memcpy_dtoh_sync(bytes, view.data() as sys::CUdeviceptr)
        }
    };
    wait_detached(|| checked(copy))?;
    // SAFETY: every byte was written.
    Ok(unsafe { Source::from_buffer(buffer, view.dtype(), view.shape().into()) })
}
