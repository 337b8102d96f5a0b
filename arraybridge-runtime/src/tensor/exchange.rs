//! The C exchange table of `arraybridge.Tensor` (DLPack 1.3): what a consumer in C calls in place of
//! `__dlpack__`, without a capsule and without a word of Python.
//!
//! dlpark has the table and its callbacks: they keep panics in, and raise. Nothing here waits for a
//! device: memory that another stream wrote is put in order with the legacy default stream, which
//! the table names as the one to work on.

use std::ffi::c_void;
use std::mem::ManuallyDrop;

use dlpark::Managed;
use dlpark::ffi::{DLDevice, DLDeviceType, DLManagedTensorVersioned, DLTensor};
use dlpark::python::DlpackExchangeProducer;
use dlpark::tensor::TensorRef;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use super::{PyTensor, Tensor, cuda};
use crate::convert::Opened;
use crate::dlpack::{self, capsule, managed};
use crate::framework::device;
use crate::host::buffer::HostBuffer;
use crate::host::layout;
use crate::memory::source::Source;

fn refused(error: impl std::fmt::Display) -> PyErr {
    PyBufferError::new_err(error.to_string())
}

// SAFETY: the view points into the object itself, whose extents and memory do not change while it
// lives; null is the handle of the legacy default stream, which every device has.
unsafe impl DlpackExchangeProducer for PyTensor {
    const HAS_DLTENSOR_VIEW: bool = true;

    fn managed_tensor_no_sync(&self, _: Python<'_>) -> PyResult<Managed<DLManagedTensorVersioned>> {
        self.settle()?;
        let source = self.memory.source();
        let source = if self.is_host() { source } else { cuda::AfterDevice::of(source) };
        Ok(source.hand_over(managed::versioned))
    }

    fn tensor_view_no_sync(&self, _: Python<'_>) -> PyResult<DLTensor> {
        let view = self.view();
        if view.is_read_only() {
            return Err(refused("a bare DLTensor cannot say that its memory is read-only"));
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

    /// Contiguous host memory, aligned for every consumer; its contents are whatever was there.
    fn allocate(prototype: &DLTensor) -> Result<Managed<DLManagedTensorVersioned>, String> {
        // The other fields are not the caller's to fill in.
        let asked = DLTensor {
            data: std::ptr::null_mut(),
            strides: std::ptr::null_mut(),
            byte_offset: 0,
            ..*prototype
        };
        // SAFETY: by the specification the prototype's shape has `ndim` entries.
        let asked = unsafe { TensorRef::from_raw(&asked) }.map_err(|error| error.to_string())?;
        if asked.device().device_type != DLDeviceType::CPU {
            return Err("arraybridge allocates memory on the host only".into());
        }
        let (dtype, shape) = dlpack::prototype(&asked).map_err(|error| error.to_string())?;
        let bytes = layout::contiguous_bytes(&shape, dtype.size()).unwrap_or(usize::MAX);
        let buffer = HostBuffer::new(bytes).map_err(|error| error.to_string())?;
        // SAFETY: by the specification the caller writes what it has asked for before it reads.
        let source = unsafe { Source::from_buffer(buffer, dtype, shape) };
        Ok(source.hand_over(managed::versioned))
    }

    fn from_managed_tensor_no_sync(
        py: Python<'_>,
        tensor: Managed<DLManagedTensorVersioned>,
    ) -> PyResult<Py<PyTensor>> {
        // The specification does not say whose a refused tensor is. TVM FFI frees it, so it is left
        // to the caller here.
        let tensor = ManuallyDrop::new(tensor);
        let device = dlpack::describe(&tensor).map_err(refused)?.device();
        if !device::is_host(device) && device.device_type != DLDeviceType::CUDA {
            return Err(refused("an arraybridge.Tensor is on the host or on a CUDA device"));
        }
        let source = capsule::described(ManuallyDrop::into_inner(tensor))?;
        let opened = Opened { source, private: false };
        Py::new(py, PyTensor::from(Tensor::from_opened(py, opened)?))
    }
}
