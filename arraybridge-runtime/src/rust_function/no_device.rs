//! Without CUDA, no function works on a device: the attribute refuses to declare one.

use pyo3::prelude::*;

use super::RustCall;
use crate::convert::Opened;
use crate::interpreter::error::Result;
use crate::tensor::{Tensor, from_opened};
use arraybridge_tensor::cuda::driver;
use arraybridge_tensor::dlpack::LEGACY_STREAM;

/// There is none.
pub(super) type CallStream = ();

impl<'py> RustCall<'_, 'py> {
    /// The stream that memory is opened for.
    pub(super) fn stream_handle(&self) -> usize {
        LEGACY_STREAM
    }

    /// A tensor of an array's memory.
    pub(super) fn tensor_of(&self, _given: &Bound<'_, PyAny>, opened: Opened) -> Result<Tensor> {
        from_opened(self.py, opened)
    }

    /// Would call the function on a CUDA device.
    pub(super) fn on_cuda(&self) -> Result<Bound<'py, PyAny>> {
        Ok(driver::missing()?)
    }
}
