//! The C exchange table that a type can carry since DLPack 1.3.
//!
//! It skips the framework's own checks: an export does not look at `requires_grad`, conjugate or
//! negative bits, so the table's guards are asked first.

use std::mem::MaybeUninit;
use std::ptr::NonNull;

use dlpark::Managed;
use dlpark::ffi::{DLManagedTensorVersioned, DLPACK_MAJOR_VERSION, DLPackExchangeAPI, DLTensor};
use dlpark::tensor::TensorRef;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;

use super::Invalid;
use crate::memory::source::{Owner, Slot};
use crate::memory::view::View;

/// A framework's exchange table, which lives as long as the process.
#[derive(Clone, Copy)]
pub struct Exchange(NonNull<DLPackExchangeAPI>);

// SAFETY: the specification has the table immutable and alive for the process.
unsafe impl Send for Exchange {}
// SAFETY: the specification has the table immutable and alive for the process.
unsafe impl Sync for Exchange {}

impl Exchange {
    /// The table of a type, if it has one whose major version we know.
    pub fn of_type(class: &Bound<'_, PyType>) -> Option<Exchange> {
        let capsule = class.getattr(pyo3::intern!(class.py(), "__dlpack_c_exchange_api__")).ok()?;
        let name = c"dlpack_exchange_api";
        // SAFETY: the object is alive, and the pointer of a capsule of this name is the header of
        // an exchange table by the specification.
        unsafe {
            if ffi::PyCapsule_IsValid(capsule.as_ptr(), name.as_ptr()) != 1 {
                return None;
            }
            let pointer = ffi::PyCapsule_GetPointer(capsule.as_ptr(), name.as_ptr());
            let mut header = NonNull::new(pointer.cast::<dlpark::ffi::DLPackExchangeAPIHeader>());
            while let Some(found) = header {
                if found.as_ref().version.major == DLPACK_MAJOR_VERSION {
                    return Some(Exchange(found.cast()));
                }
                header = NonNull::new(found.as_ref().prev_api);
            }
        }
        None
    }

    /// Exports an array of the table's type, without ordering any stream.
    ///
    /// # Safety
    ///
    /// The object is of the type that the table was found on.
    ///
    /// # Errors
    ///
    /// What the framework raises for an array that it cannot describe.
    pub unsafe fn export(
        &self,
        data: &Bound<'_, PyAny>,
    ) -> PyResult<Managed<DLManagedTensorVersioned>> {
        // SAFETY: the table is alive; the object is one of the type that it was found on, and the tensor
        // is the caller's.
        unsafe {
            let Some(export) = self.0.as_ref().managed_tensor_from_py_object_no_sync else {
                return Err(PyBufferError::new_err("the exchange table cannot export"));
            };
            let mut tensor = std::ptr::null_mut();
            if export(data.as_ptr().cast(), &mut tensor) != 0 {
                return Err(PyErr::fetch(data.py()));
            }
            let invalid =
                |error: dlpark::dlpack::FromRawError| PyBufferError::new_err(error.to_string());
            Managed::from_raw(tensor).map_err(invalid)
        }
    }

    /// Describes an array of the table's type in `slot` without an export. Nothing says whether its memory
    /// may be written to.
    ///
    /// # Safety
    ///
    /// The object is of the type that the table was found on. The owner keeps its memory alive, which
    /// may be written to.
    ///
    /// # Errors
    ///
    /// What the framework raises for an array that it cannot describe, `BufferError` if the table cannot
    /// describe.
    #[inline]
    pub unsafe fn describe(
        &self,
        data: &Bound<'_, PyAny>,
        owner: Owner,
        slot: &mut Slot,
    ) -> PyResult<()> {
        // SAFETY: the owner keeps the array's memory alive, and the object is of the table's type.
        unsafe { slot.describe(owner, |view| self.describe_in(data, view)) }
    }

    /// # Safety
    ///
    /// The object is of the type that the table was found on.
    #[inline]
    unsafe fn describe_in(&self, data: &Bound<'_, PyAny>, view: &mut View) -> PyResult<()> {
        // SAFETY: the table is alive; the object is one of the type that it was found on, and lives
        // longer than the descriptor's extents, which are copied.
        unsafe {
            let Some(describe) = self.0.as_ref().dltensor_from_py_object_no_sync else {
                return Err(PyBufferError::new_err("the exchange table cannot describe"));
            };
            let mut tensor = MaybeUninit::<DLTensor>::zeroed();
            if describe(data.as_ptr().cast(), tensor.as_mut_ptr()) != 0 {
                return Err(PyErr::fetch(data.py()));
            }
            let tensor = tensor.assume_init_ref();
            TensorRef::from_raw(tensor)
                .map_err(Invalid::from)
                .and_then(|checked| super::describe_in(&checked, view))
                .and_then(|()| match tensor.data.is_null() && !view.is_empty() {
                    true => Err(Invalid::NullData),
                    false => Ok(()),
                })
                .map_err(|error| PyBufferError::new_err(error.to_string()))
        }
    }

    /// Makes an array of the table's framework. The tensor is the framework's from here on; one
    /// that it refuses may leak, so it has to fit what the framework takes.
    ///
    /// # Errors
    ///
    /// What the framework raises.
    pub fn import<'py>(
        &self,
        py: Python<'py>,
        tensor: Managed<DLManagedTensorVersioned>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: the table is alive, the tensor is owned and handed over whole, and the object
        // that comes back is a new reference.
        unsafe {
            let Some(import) = self.0.as_ref().managed_tensor_to_py_object_no_sync else {
                return Err(PyBufferError::new_err("the exchange table cannot import"));
            };
            let mut object = std::ptr::null_mut();
            if import(tensor.into_raw(), &mut object) != 0 {
                return Err(PyErr::fetch(py));
            }
            Bound::from_owned_ptr_or_err(py, object.cast())
        }
    }
}
