//! The C exchange table of a type (DLPack 1.3).
//!
//! It skips the framework's own checks: an export ignores `requires_grad` and the conjugate and negative
//! bits. The guards in `frameworks.toml` are checked first.

use std::iter;
use std::ptr::NonNull;

use dlpark::Managed;
use dlpark::ffi::{
    DLManagedTensorVersioned, DLPACK_MAJOR_VERSION, DLPackExchangeAPI, DLPackExchangeAPIHeader,
    DLTensor,
};
use dlpark::tensor::TensorRef;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;

use super::capsule::buffer_error;
use arraybridge_tensor::dlpack::{self, Invalid};
use arraybridge_tensor::memory::source::{Owner, Slot};
use arraybridge_tensor::memory::view::View;

/// A framework's exchange table, which lives as long as the process.
#[derive(Clone, Copy)]
pub struct Exchange(NonNull<DLPackExchangeAPI>);

// SAFETY: by the specification the table is immutable and lives as long as the process.
unsafe impl Send for Exchange {}
// SAFETY: by the specification the table is immutable and lives as long as the process.
unsafe impl Sync for Exchange {}

/// The versions of a table that are looked at: a chain that is a circle has no end.
const MAX_VERSIONS: usize = 16;

impl Exchange {
    /// The table of a type, if it has one of our major version.
    pub fn of_type(class: &Bound<'_, PyType>) -> Option<Exchange> {
        let capsule =
            class.getattr(crate::intern!(class.py(), "__dlpack_c_exchange_api__")).ok()?;
        let name = c"dlpack_exchange_api";
        // SAFETY: the object is alive. By the specification a capsule of this name points to the header of
        // an exchange table.
        unsafe {
            if ffi::PyCapsule_IsValid(capsule.as_ptr(), name.as_ptr()) != 1 {
                return None;
            }
            let pointer = ffi::PyCapsule_GetPointer(capsule.as_ptr(), name.as_ptr());
            let newest = NonNull::new(pointer.cast::<DLPackExchangeAPIHeader>());
            let older =
                |found: &NonNull<DLPackExchangeAPIHeader>| NonNull::new(found.as_ref().prev_api);
            let mut headers = iter::successors(newest, older).take(MAX_VERSIONS);
            let found =
                headers.find(|header| header.as_ref().version.major == DLPACK_MAJOR_VERSION);
            found.map(|header| Exchange(header.cast()))
        }
    }

    /// Exports an array, without waiting for any stream.
    ///
    /// # Safety
    ///
    /// The object is an instance of the type that has this table.
    ///
    /// # Errors
    ///
    /// Any exception that the framework raises for an array that it cannot describe.
    pub unsafe fn export(
        &self,
        data: &Bound<'_, PyAny>,
    ) -> PyResult<Managed<DLManagedTensorVersioned>> {
        // SAFETY: the table is alive, the object is an instance of its type, and the tensor that it exports
        // belongs to the caller.
        unsafe {
            let Some(export) = self.0.as_ref().managed_tensor_from_py_object_no_sync else {
                return Err(PyBufferError::new_err("the exchange table cannot export"));
            };
            let mut tensor = std::ptr::null_mut();
            if export(data.as_ptr().cast(), &mut tensor) != 0 {
                return Err(PyErr::fetch(data.py()));
            }
            Managed::from_raw(tensor).map_err(buffer_error)
        }
    }

    /// Describes an array in `slot` without exporting it. The table does not say whether the memory is
    /// read-only.
    ///
    /// # Safety
    ///
    /// The object is an instance of the type that has this table. The owner keeps its memory alive, and the
    /// memory may be written to.
    ///
    /// # Errors
    ///
    /// Any exception that the framework raises for an array that it cannot describe; `BufferError`
    /// if the table lacks the function.
    #[inline]
    pub unsafe fn describe(
        &self,
        data: &Bound<'_, PyAny>,
        owner: Owner,
        slot: &mut Slot,
    ) -> PyResult<()> {
        // SAFETY: the owner keeps the array's memory alive, and the object is an instance of the table's type.
        unsafe { slot.describe(owner, |view| self.describe_in(data, view)) }
    }

    /// Describes the first of some arrays, if all others have its dtype, its shape and its device, and memory too.
    ///
    /// # Safety
    ///
    /// The objects are instances of the type that has this table.
    pub unsafe fn describe_alike(
        &self,
        first: &Bound<'_, PyAny>,
        others: &[Bound<'_, PyAny>],
    ) -> PyResult<Option<View>> {
        let mut view = View::default();
        // SAFETY: the objects are instances of the table's type. They outlive their descriptors.
        unsafe {
            self.describe_in(first, &mut view)?;
            let first = self.descriptor(first)?;
            for other in others {
                if !is_like(&self.descriptor(other)?, &first, &view) {
                    return Ok(None);
                }
            }
        }
        Ok(Some(view))
    }

    /// Describes an array in `view`. Nothing is kept alive.
    ///
    /// # Safety
    ///
    /// The object is an instance of the type that has this table.
    #[inline]
    pub unsafe fn describe_in(&self, data: &Bound<'_, PyAny>, view: &mut View) -> PyResult<()> {
        // SAFETY: the object is an instance of the table's type. It outlives the descriptor, which is copied
        // here.
        unsafe {
            let tensor = self.descriptor(data)?;
            TensorRef::from_raw(&tensor)
                .map_err(Invalid::from)
                .and_then(|checked| dlpack::describe_in(&checked, view))
                .map_err(buffer_error)
        }
    }

    /// The descriptor of an array, which nobody has checked.
    ///
    /// # Safety
    ///
    /// The object is an instance of the type that has this table.
    #[inline]
    unsafe fn descriptor(&self, data: &Bound<'_, PyAny>) -> PyResult<DLTensor> {
        let mut tensor = DLTensor::default();
        // SAFETY: the table is alive and the object an instance of its type.
        unsafe {
            let Some(describe) = self.0.as_ref().dltensor_from_py_object_no_sync else {
                return Err(PyBufferError::new_err("the exchange table cannot describe"));
            };
            match describe(data.as_ptr().cast(), &raw mut tensor) {
                0 => Ok(tensor),
                _ => Err(PyErr::fetch(data.py())),
            }
        }
    }

    /// Makes an array of the table's framework, which takes over the tensor. A tensor that it refuses may
    /// leak, so it must be one that the framework accepts.
    pub fn import<'py>(
        &self,
        py: Python<'py>,
        tensor: Managed<DLManagedTensorVersioned>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: the table is alive, the framework takes over the tensor, and the resulting object is a
        // new reference.
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

/// Returns whether a descriptor is like that of the first array, which was checked, and whose view
/// this is.
///
/// # Safety
///
/// The shape of the descriptor can be read.
#[inline]
unsafe fn is_like(tensor: &DLTensor, first: &DLTensor, view: &View) -> bool {
    let facts = |tensor: &DLTensor| (tensor.dtype, tensor.device, tensor.ndim);
    if facts(tensor) != facts(first) || (tensor.data.is_null() && !view.is_empty()) {
        return false;
    }
    // SAFETY: the descriptor has as many lengths as that of the first array, and they can be read.
    let shape = unsafe { tensor.shape() };
    shape.is_ok_and(|shape| shape.iter().map(|n| *n as usize).eq(view.shape().iter().copied()))
}
