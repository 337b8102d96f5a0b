//! DLPack capsules.

use std::ffi::CStr;

use dlpark::ffi::{DLManagedTensor, DLManagedTensorVersioned};
use dlpark::{Managed, ManagedTensorBase};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::sync::critical_section::with_critical_section;
use pyo3::types::{PyCapsule, PyTuple};

use arraybridge_tensor::memory::source::{Owner, Source};

const LEGACY: &CStr = c"dltensor";
const LEGACY_USED: &CStr = c"used_dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
const VERSIONED_USED: &CStr = c"used_dltensor_versioned";

/// Takes the tensor out of a capsule and marks the capsule as used.
///
/// (dlpark's own import raises `ValueError` or `RuntimeError`, where the protocol has `BufferError`.)
///
/// # Errors
///
/// `BufferError` if the object is not a DLPack capsule, if it is used, or if its tensor cannot be read;
/// in the last case the tensor is freed.
pub fn take(capsule: &Bound<'_, PyAny>) -> PyResult<Source> {
    // SAFETY: by the DLPack specification a capsule of one of these names holds a tensor of that layout.
    unsafe {
        if let Some(tensor) =
            take_named::<DLManagedTensorVersioned>(capsule, VERSIONED, VERSIONED_USED)?
        {
            described(tensor)
        } else if let Some(tensor) = take_named::<DLManagedTensor>(capsule, LEGACY, LEGACY_USED)? {
            described(tensor)
        } else {
            // A capsule says its name; what another object says of itself may be its elements.
            let found = match capsule.is_instance_of::<PyCapsule>() {
                true => capsule.repr()?.to_string(),
                false => format!("an object of class {}", capsule.get_type().qualname()?),
            };
            Err(PyBufferError::new_err(format!("expected an unused DLPack capsule, found {found}")))
        }
    }
}

/// The tensor of a capsule of this name, which is renamed; `None` if it has another name.
///
/// # Safety
///
/// A capsule of this name holds a tensor of this layout, and belongs to whoever renames the capsule.
unsafe fn take_named<M: ManagedTensorBase>(
    capsule: &Bound<'_, PyAny>,
    name: &CStr,
    used: &'static CStr,
) -> PyResult<Option<Managed<M>>> {
    let pointer = capsule.as_ptr();
    // Without the GIL another thread could take the tensor between the look at the name and the renaming.
    with_critical_section(capsule, || {
        // SAFETY: the object is alive, and its new name is a static. After the renaming the tensor belongs to
        // the handle.
        unsafe {
            if ffi::PyCapsule_IsValid(pointer, name.as_ptr()) != 1 {
                return Ok(None);
            }
            let tensor = ffi::PyCapsule_GetPointer(pointer, name.as_ptr());
            if ffi::PyCapsule_SetName(pointer, used.as_ptr()) != 0 {
                return Err(PyErr::fetch(capsule.py()));
            }
            Managed::from_raw(tensor.cast()).map(Some).map_err(buffer_error)
        }
    })
}

/// The memory of an imported tensor.
///
/// # Errors
///
/// `BufferError` if the tensor cannot be read.
pub fn described<M: ManagedTensorBase>(tensor: Managed<M>) -> PyResult<Source>
where
    Owner: From<Managed<M>>,
{
    // SAFETY: by the DLPack specification the memory is valid until the tensor's deleter is called, and may
    // be written to unless the tensor says otherwise.
    unsafe { arraybridge_tensor::dlpack::adopt(tensor) }.map_err(buffer_error)
}

/// The exception for memory that the protocol cannot describe.
pub fn buffer_error(error: impl std::fmt::Display) -> PyErr {
    PyBufferError::new_err(error.to_string())
}

/// The newest DLPack version that we read.
#[expect(clippy::disallowed_methods, reason = "no Python code runs")]
pub fn newest_version(py: Python<'_>) -> Bound<'_, PyAny> {
    static VERSION: PyOnceLock<Py<PyTuple>> = PyOnceLock::new();
    let make = || PyTuple::new(py, [1, 3]).map(Bound::unbind);
    match VERSION.get_or_try_init(py, make) {
        Ok(version) => version.bind(py).clone().into_any(),
        Err(_) => py.None().into_bound(py),
    }
}

#[cfg(all(test, not(Py_LIMITED_API)))]
mod tests;
