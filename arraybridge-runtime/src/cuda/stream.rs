//! The stream of a call.

use std::ops::Deref;
use std::sync::Arc;

use cudarc::driver::CudaStream;

use crate::cuda::driver;
use crate::framework::device::Device;
use crate::interpreter::error::Result;

/// The CUDA stream of a call, which a declared function takes as `&Stream`.
///
/// The calling thread has one for each device, and the frameworks that can adopt it work on it while
/// the function runs. A function puts its own work on it, too, or on streams of its own that it joins
/// to this one before it returns. It need not wait for the work to end. The device's context is the
/// current one of the thread.
///
/// It stands for cudarc's `Arc<CudaStream>`, with all that that can do: `launch_builder`,
/// `memcpy_dtod`, `context`, `fork`.
#[derive(Debug)]
pub struct Stream(Arc<CudaStream>);

impl Stream {
    /// # Safety
    ///
    /// The handle is that of a stream of this device which is never destroyed.
    pub(crate) unsafe fn new(index: usize, handle: usize) -> Result<Stream> {
        // SAFETY: by the contract.
        unsafe { driver::lasting_stream(index, handle) }.map(Stream)
    }

    /// The stream as a number, which is how frameworks and other libraries take it.
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
