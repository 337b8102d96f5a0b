//! The C exchange table of `arraybridge.Tensor` (DLPack 1.3), which a consumer in C calls instead of
//! `__dlpack__`.
//!
//! dlpark provides the table and its callbacks, which turn panics and errors into exceptions. Nothing
//! here waits for a device: the legacy default stream, which the table names as the one to work on, is
//! made to wait for the stream that wrote the memory.

use std::ffi::c_void;
use std::mem::ManuallyDrop;

use dlpark::Managed;
use dlpark::ffi::{DLDevice, DLDeviceType, DLManagedTensorVersioned, DLTensor};
use dlpark::python::DlpackExchangeProducer;
use dlpark::tensor::TensorRef;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use super::{PyTensor, Tensor, streams};
use crate::convert::Opened;
use crate::dlpack::{self, capsule, managed};
use crate::host::buffer::HostBuffer;
use crate::host::layout;
use crate::memory::source::Source;

fn buffer_error(error: impl std::fmt::Display) -> PyErr {
    PyBufferError::new_err(error.to_string())
}

// SAFETY: the `DLTensor` points into the object, whose extents and memory do not change while it lives.
// Null is the handle of the legacy default stream, which every device has.
unsafe impl DlpackExchangeProducer for PyTensor {
    const HAS_DLTENSOR_VIEW: bool = true;

    fn managed_tensor_no_sync(&self, _: Python<'_>) -> PyResult<Managed<DLManagedTensorVersioned>> {
        self.settle()?;
        let source = self.memory.source();
        let source = if self.is_host() { source } else { streams::AfterDevice::of(source) };
        Ok(source.hand_over(managed::versioned))
    }

    fn tensor_view_no_sync(&self, _: Python<'_>) -> PyResult<DLTensor> {
        let view = self.view();
        if view.is_read_only() {
            return Err(buffer_error("a DLTensor cannot mark its memory as read-only"));
        }
        self.settle()?;
        let [shape, strides] = self.extents.each_ref().map(|extents| match extents.is_empty() {
            true => std::ptr::null_mut(),
            false => extents.as_ptr().cast_mut(),
        });
        Ok(DLTensor {
            data: view.data().cast(),
            device: view.device(),
            ndim: view.ndim() as i32,
            dtype: view.dtype().dlpack(),
            shape,
            strides,
            byte_offset: 0,
        })
    }

    fn current_work_stream(_: Python<'_>, _: DLDevice) -> PyResult<*mut c_void> {
        Ok(std::ptr::null_mut())
    }

    /// Uninitialised, contiguous host memory, aligned for every consumer.
    fn allocate(prototype: &DLTensor) -> Result<Managed<DLManagedTensorVersioned>, String> {
        // The specification leaves these fields undefined.
        let asked = DLTensor {
            data: std::ptr::null_mut(),
            strides: std::ptr::null_mut(),
            byte_offset: 0,
            ..*prototype
        };
        // SAFETY: by the specification the prototype's shape has `ndim` entries.
        let asked = unsafe { TensorRef::from_raw(&asked) }.map_err(|error| error.to_string())?;
        if asked.device().device_type != DLDeviceType::CPU {
            return Err("arraybridge.Tensor allocates host memory only".into());
        }
        let (dtype, shape) = dlpack::prototype(&asked).map_err(|error| error.to_string())?;
        let bytes = layout::contiguous_bytes(&shape, dtype.size()).unwrap_or(usize::MAX);
        let buffer = HostBuffer::new(bytes).map_err(|error| error.to_string())?;
        // SAFETY: by the specification the caller writes the elements before they are read.
        let source = unsafe { Source::from_buffer(buffer, dtype, shape) };
        Ok(source.hand_over(managed::versioned))
    }

    fn from_managed_tensor_no_sync(
        py: Python<'_>,
        tensor: Managed<DLManagedTensorVersioned>,
    ) -> PyResult<Py<PyTensor>> {
        // The specification does not say who frees a tensor that is refused. TVM FFI does so itself, so
        // the caller keeps it.
        let tensor = ManuallyDrop::new(tensor);
        let device = dlpack::describe(&tensor).map_err(buffer_error)?.device();
        super::expect_device(device).map_err(buffer_error)?;
        let source = capsule::described(ManuallyDrop::into_inner(tensor))?;
        let opened = Opened { source, private: false };
        Py::new(py, PyTensor::from(Tensor::from_opened(py, opened)?))
    }
}
