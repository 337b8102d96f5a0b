//! Capsules: taken once, and given.

use std::ffi::CStr;

use dlpark::Managed;
use dlpark::ffi::{DLManagedTensor, DLManagedTensorVersioned};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::memory::view::{Owner, Source};

const LEGACY: &CStr = c"dltensor";
const LEGACY_USED: &CStr = c"used_dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
const VERSIONED_USED: &CStr = c"used_dltensor_versioned";

/// Takes the tensor out of a capsule, which is marked as used.
///
/// # Errors
///
/// `BufferError` when it is no DLPack capsule, was used before, or holds a tensor that cannot be
/// read; in the last case the tensor is freed.
pub fn take(capsule: &Bound<'_, PyAny>) -> PyResult<Source> {
    let pointer = capsule.as_ptr();
    // SAFETY: the object is alive and the names are C strings; a capsule of a matching name
    // holds a tensor of that layout by the DLPack convention, and renaming it before use makes
    // us its only owner.
    let owner = unsafe {
        if ffi::PyCapsule_IsValid(pointer, VERSIONED.as_ptr()) == 1 {
            let tensor = ffi::PyCapsule_GetPointer(pointer, VERSIONED.as_ptr());
            rename(capsule, VERSIONED_USED)?;
            Owner::Versioned(
                Managed::<DLManagedTensorVersioned>::from_raw(tensor.cast()).map_err(invalid)?,
            )
        } else if ffi::PyCapsule_IsValid(pointer, LEGACY.as_ptr()) == 1 {
            let tensor = ffi::PyCapsule_GetPointer(pointer, LEGACY.as_ptr());
            rename(capsule, LEGACY_USED)?;
            Owner::Legacy(Managed::<DLManagedTensor>::from_raw(tensor.cast()).map_err(invalid)?)
        } else {
            return Err(PyBufferError::new_err(format!(
                "expected an unused DLPack capsule, found {}",
                capsule.repr().map(|r| r.to_string()).unwrap_or_default()
            )));
        }
    };
    described(owner)
}

/// Describes an imported tensor.
pub fn described(owner: Owner) -> PyResult<Source> {
    let view = match &owner {
        Owner::Versioned(tensor) => super::describe(tensor),
        Owner::Legacy(tensor) => super::describe(tensor),
        _ => unreachable!("only imported tensors are described"),
    };
    Ok(Source { view: view.map_err(invalid)?, owner })
}

fn invalid(error: impl std::fmt::Display) -> PyErr {
    PyBufferError::new_err(error.to_string())
}

fn rename(capsule: &Bound<'_, PyAny>, name: &'static CStr) -> PyResult<()> {
    // SAFETY: the capsule is valid, and the name lives as long as the process.
    match unsafe { ffi::PyCapsule_SetName(capsule.as_ptr(), name.as_ptr()) } {
        0 => Ok(()),
        _ => Err(PyErr::fetch(capsule.py())),
    }
}

/// A legacy capsule that owns a tensor until somebody takes it.
pub fn give_legacy(py: Python<'_>, tensor: Managed<DLManagedTensor>) -> PyResult<Bound<'_, PyAny>> {
    give(py, tensor.into_raw().cast(), LEGACY, drop_legacy)
}

/// A versioned capsule that owns a tensor until somebody takes it.
pub fn give_versioned(
    py: Python<'_>,
    tensor: Managed<DLManagedTensorVersioned>,
) -> PyResult<Bound<'_, PyAny>> {
    give(py, tensor.into_raw().cast(), VERSIONED, drop_versioned)
}

fn give<'py>(
    py: Python<'py>,
    tensor: *mut std::ffi::c_void,
    name: &'static CStr,
    destructor: unsafe extern "C" fn(*mut ffi::PyObject),
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the pointer is a tensor of the layout that the name promises, and the destructor
    // belongs to that name.
    unsafe {
        let capsule = ffi::PyCapsule_New(tensor, name.as_ptr(), Some(destructor));
        Bound::from_owned_ptr_or_err(py, capsule)
    }
}

unsafe extern "C" fn drop_legacy(capsule: *mut ffi::PyObject) {
    // SAFETY: called by the interpreter with the capsule that is being freed; one that was taken
    // has another name.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, LEGACY.as_ptr()) == 1 {
            let tensor = ffi::PyCapsule_GetPointer(capsule, LEGACY.as_ptr());
            drop(Managed::<DLManagedTensor>::from_raw(tensor.cast()));
        }
    }
}

unsafe extern "C" fn drop_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: as above.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) == 1 {
            let tensor = ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr());
            drop(Managed::<DLManagedTensorVersioned>::from_raw(tensor.cast()));
        }
    }
}
