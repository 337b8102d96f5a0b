//! The C exchange table of `arraybridge.Tensor` (DLPack 1.3), which a consumer in C calls instead of
//! `__dlpack__`.
//!
//! dlpark provides the table and its callbacks, which turn panics and errors into exceptions. Nothing
//! here waits for a device: the legacy default stream, which the table names as the one to work on, is
//! made to wait for the stream that wrote the memory.

use std::ffi::{c_int, c_void};
use std::mem::ManuallyDrop;
use std::sync::OnceLock;

use dlpark::Managed;
use dlpark::ffi::{
    DLDevice, DLDeviceType, DLManagedTensorVersioned, DLPACK_MAJOR_VERSION, DLPackExchangeAPI,
    DLTensor,
};
use dlpark::python::DlpackExchangeProducer;
use dlpark::tensor::TensorRef;
use pyo3::ffi;
use pyo3::prelude::*;

use super::PyTensor;
use super::opened::from_opened;
use crate::convert::Opened;
use crate::dlpack::capsule::buffer_error;
use arraybridge_host::buffer::HostBuffer;
use arraybridge_host::layout;
use arraybridge_tensor::dlpack::{self, managed};
use arraybridge_tensor::memory::source::{Owner, Source};
use arraybridge_tensor::tensor::{expect_device, streams};

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
        // the caller keeps it: a handle of our own lasts until the object exists.
        let tensor = ManuallyDrop::new(tensor);
        let view = dlpack::describe(&tensor).map_err(buffer_error)?;
        expect_device(view.device()).map_err(buffer_error)?;
        let mut owner = ManuallyDrop::new(Owner::from(ManuallyDrop::into_inner(tensor)));
        // SAFETY: by the specification the memory is valid until the tensor's deleter is called, which the
        // owner does, and may be written to unless the tensor says otherwise.
        let source = unsafe { Source::new(view, owner.share()) };
        let made = from_opened(py, Opened { source, private: false })
            .map_err(PyErr::from)
            .and_then(|tensor| Py::new(py, PyTensor::from(tensor)));
        let owner = ManuallyDrop::into_inner(owner);
        if made.is_err() {
            std::mem::forget(owner.unshare());
        }
        made
    }
}

type ToObject = unsafe extern "C" fn(*mut DLManagedTensorVersioned, *mut *mut c_void) -> c_int;

/// dlpark's function that makes an object of a tensor.
static TO_OBJECT: OnceLock<ToObject> = OnceLock::new();

/// Adds the table to the class.
///
/// # Errors
///
/// Any exception that Python raises.
pub(super) fn install(py: Python<'_>) -> PyResult<()> {
    dlpark::python::install_exchange_api::<PyTensor>(py)?;
    let name = c"dlpack_exchange_api";
    let capsule = py.get_type::<PyTensor>().getattr("__dlpack_c_exchange_api__")?;
    // SAFETY: the capsule is the one that dlpark has just made of a table that it leaked, and nobody has
    // seen the class yet.
    let table = unsafe {
        let pointer = ffi::PyCapsule_GetPointer(capsule.as_ptr(), name.as_ptr());
        pointer.cast::<DLPackExchangeAPI>().as_mut()
    };
    let table = table.ok_or_else(|| PyErr::fetch(py))?;
    if let Some(to_object) = table.managed_tensor_to_py_object_no_sync.replace(to_object_if_known) {
        TO_OBJECT.get_or_init(|| to_object);
    }
    Ok(())
}

/// Makes an object of a tensor, unless its layout is of another major version: dlpark frees such a tensor,
/// but one that is refused stays the caller's.
unsafe extern "C" fn to_object_if_known(
    tensor: *mut DLManagedTensorVersioned,
    object: *mut *mut c_void,
) -> c_int {
    let to_object = TO_OBJECT.get().expect("the table holds this function after the other is kept");
    // SAFETY: by the specification the caller is attached, the tensor is one of some version, whose place
    // never changes, and `object` can be written to. dlpark looks for null.
    unsafe {
        match tensor.as_ref().map(|tensor| tensor.version.major) {
            Some(major) if major != DLPACK_MAJOR_VERSION => {
                if let Some(object) = object.as_mut() {
                    *object = std::ptr::null_mut();
                }
                let text =
                    format!("the tensor is of DLPack {major}, of which arraybridge knows nothing");
                buffer_error(text).restore(Python::assume_attached());
                -1
            }
            _ => to_object(tensor, object),
        }
    }
}
