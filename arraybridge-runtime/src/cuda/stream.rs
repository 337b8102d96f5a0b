//! The stream that a declared Rust function takes.

use std::ops::Deref;
use std::sync::Arc;

use cudarc::driver::CudaStream;

use crate::cuda::driver;
use crate::framework::device::Device;
use crate::interpreter::detached::DetachedRef;
use crate::interpreter::error::Result;

/// The CUDA stream of a call, which a declared function takes as `&Stream`.
///
/// It is the current stream of the declared framework on the calling thread. The function puts its own work
/// on this stream, or on other streams that it joins to this one before it returns. It does not have to wait
/// for the work to finish. The device's context is current on the thread.
///
/// It dereferences to cudarc's `Arc<CudaStream>`, with `launch_builder`, `memcpy_dtod`, `context`, `fork` and
/// so on. A clone of that keeps the stream alive.
#[derive(Debug)]
pub struct Stream(Arc<CudaStream>);

impl Stream {
    /// # Safety
    ///
    /// The handle is that of a stream on this device, which lives as long as the owner.
    pub(crate) unsafe fn new(
        index: usize,
        handle: usize,
        owner: impl FnOnce() -> DetachedRef,
    ) -> Result<Stream> {
        // SAFETY: the handle is that of a stream on this device, which lives as long as the owner.
        unsafe { driver::owned_stream(index, handle, owner) }.map(Stream)
    }

    /// The handle as a number, as other libraries take it; 1 for the legacy default stream.
    pub fn handle(&self) -> usize {
        self.0.cu_stream() as usize
    }

    /// The index of the stream's device.
    pub fn index(&self) -> usize {
        self.0.context().ordinal()
    }

    /// The stream's device.
    pub fn device(&self) -> Device {
        Device::Accelerator(self.index())
    }
}

impl Deref for Stream {
    type Target = Arc<CudaStream>;

    fn deref(&self) -> &Arc<CudaStream> {
        &self.0
    }
}
