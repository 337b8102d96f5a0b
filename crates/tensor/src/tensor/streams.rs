//! Tensors in CUDA memory are ordered with the streams of their consumers.

use crate::cuda::driver::{self, SharedStream, wait_for_device};
use crate::dlpack::LEGACY_STREAM;
use crate::error::Result;
use crate::memory::source::{Owner, Source};
use arraybridge_host::buffer::HostBuffer;

/// The stream on which a tensor's memory was written; `None` is the legacy default stream.
pub type WrittenOn = Option<SharedStream>;

/// Memory that is lent to a consumer on another stream than that of the memory.
///
/// A consumer names the stream that it starts on, may go on to use others, and may have destroyed that one by
/// the time it releases the memory. So all work of the device is waited for then.
pub struct AfterDevice {
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
    pub fn of(source: Source) -> Source {
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
/// [`Error::Cuda`](crate::error::Error::Cuda) if CUDA reports a failure.
pub fn settled(source: Source, stream: &WrittenOn) -> Result<Source> {
    if source.view().is_on_host() {
        return Ok(source);
    }
    if stream.is_some() {
        let index = source.view().device().device_id as usize;
        // SAFETY: the tensor keeps its stream alive, and every device has a legacy default stream.
        unsafe { driver::order(index, handle(stream), LEGACY_STREAM) }?;
    }
    Ok(AfterDevice::of(source))
}

/// The handle of a producer's stream.
pub fn handle(stream: &WrittenOn) -> usize {
    stream.as_ref().map_or(LEGACY_STREAM, driver::handle)
}

/// Makes a consumer's stream wait for the producer's.
///
/// # Errors
///
/// [`Error::Cuda`](crate::error::Error::Cuda) if CUDA reports a failure.
pub fn order(device: i32, producer: &WrittenOn, consumer: usize) -> Result<()> {
    // SAFETY: the producer's stream is alive or the legacy default one, and DLPack requires the consumer to
    // pass the handle of a stream of the device.
    unsafe { driver::order(device as usize, handle(producer), consumer) }
}

/// Copies a contiguous device array to the host, once the producer's stream has written it.
///
/// # Errors
///
/// [`Error::Memory`](crate::error::Error::Memory) if the allocation fails,
/// [`Error::Cuda`](crate::error::Error::Cuda) if CUDA reports a failure.
pub fn to_host(memory: &Source, producer: &WrittenOn) -> Result<Source> {
    let view = memory.view();
    let mut buffer = HostBuffer::new(view.nbytes())?;
    let (index, bytes) = (view.device().device_id as usize, buffer.len());
    // SAFETY: the buffer has as many bytes, which are written before they are read. The stream is alive or the
    // legacy default one. The array is contiguous, and its owner keeps it alive.
    unsafe {
        std::ptr::write_bytes(buffer.as_mut_ptr(), 0, bytes);
        let bytes = std::slice::from_raw_parts_mut(buffer.as_mut_ptr(), bytes);
        driver::download(index, handle(producer), view.data(), bytes)?;
        Ok(Source::from_buffer(buffer, view.dtype(), view.shape().into()))
    }
}
