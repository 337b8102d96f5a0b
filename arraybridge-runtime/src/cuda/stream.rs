//! The stream of a call.

use std::ops::Deref;
use std::sync::Arc;

use cudarc::driver::CudaStream;

use crate::cuda::driver;
use crate::framework::device::Device;
use crate::interpreter::error::Result;
use crate::interpreter::held::Held;

/// The CUDA stream of a call, which a declared function takes as `&Stream`.
///
/// It is the current stream of the declared framework on the calling thread: the one that the
/// framework's own functions would run on. A function puts its own work on it, too, or on streams of
/// its own that it joins to this one before it returns. It need not wait for the work to end. The
/// device's context is the current one of the thread.
///
/// It stands for cudarc's `Arc<CudaStream>`, with all that that can do: `launch_builder`,
/// `memcpy_dtod`, `context`, `fork`. Whatever refers to it keeps the stream alive.
#[derive(Debug)]
pub struct Stream(Arc<CudaStream>);

impl Stream {
    /// # Safety
    ///
    /// The handle is that of a stream of this device, which exists as long as the owner.
    pub(crate) unsafe fn new(
        index: usize,
        handle: usize,
        owner: impl FnOnce() -> Held,
    ) -> Result<Stream> {
        // SAFETY: by the contract the stream exists as long as the owner.
        unsafe { driver::borrowed_stream(index, handle, owner) }.map(Stream)
    }

    /// The stream as a number, which is how frameworks and other libraries take it; 1 for the legacy
    /// default stream.
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
