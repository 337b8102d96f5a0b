//! The stream that a declared Rust function takes.

use std::ops::Deref;
use std::sync::Arc;

use cudarc::driver::CudaStream;

use crate::cuda::driver;
use crate::framework::device::Device;
use crate::interpreter::error::Result;

/// The CUDA stream of a call, which a declared function takes as `&Stream`.
///
/// A thread has one stream per device. While the function runs, CuPy and torch work on it too. The function
/// puts its own work on this stream, or on other streams that it joins to this one before it returns. It
/// does not have to wait for the work to finish. The device's context is current on the thread.
///
/// It dereferences to cudarc's `Arc<CudaStream>`, with `launch_builder`, `memcpy_dtod`, `context`, `fork` and
/// so on.
#[derive(Debug)]
pub struct Stream(Arc<CudaStream>);

impl Stream {
    /// # Safety
    ///
    /// The handle is that of a stream on this device that is never destroyed.
    pub(crate) unsafe fn new(index: usize, handle: usize) -> Result<Stream> {
        // SAFETY: the handle is that of a stream on this device that is never destroyed.
        unsafe { driver::borrowed_stream(index, handle) }.map(Stream)
    }

    /// The handle as a number, as other libraries take it.
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
