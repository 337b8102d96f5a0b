//! Memory of others as NumPy arrays.

use std::ffi::{CStr, c_int, c_void};

use dlpark::Managed;
use dlpark::ffi::DLManagedTensorVersioned;
use ndarray::{Array, Dimension};
use numpy::npyffi::{self, PY_ARRAY_API, PyArray_Descr, PyArrayObject};
use pyo3::ffi;
use pyo3::prelude::*;

use super::dtype::{descr, number};
use super::{dtype_of, fields, is_described_by, plain_array};
use crate::host::dtype::DType;
use crate::interpreter::held::{Held, HeldBuffer};
use crate::memory::element::Element;
use crate::memory::source::{Outgoing, Owner};
use crate::memory::view::View;

/// Makes a NumPy array of host memory; it is read-only if the view is.
///
/// `extended` gives the dtype object of a dtype that is not NumPy's own; where it gives none, neither
/// does this.
///
/// # Errors
///
/// What NumPy raises.
pub fn wrap<'py>(
    py: Python<'py>,
    memory: Outgoing<'_>,
    extended: impl FnOnce(DType) -> Option<Bound<'py, PyAny>>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let (view, owner) = memory.into_parts();
    let owner = match owner {
        Owner::Object(held) if is_just(py, &held, view) => {
            let array = held.into_bound(py);
            if view.is_read_only() {
                // SAFETY: it is a NumPy array, and nobody else has it.
                unsafe { clear_writeable(&array) };
            }
            return Ok(Some(array));
        }
        owner => owner,
    };
    let Some(descr) = descr(py, view.dtype(), extended) else { return Ok(None) };
    let strides = view.strides().as_ptr();
    // SAFETY: the dtype is a new reference, and the owner keeps the described memory. The array is new, so
    // that nobody else has it.
    unsafe {
        let array = new(py, descr, view.data(), view.shape(), strides, || base(py, owner))?;
        if view.is_read_only() {
            clear_writeable(&array);
        }
        Ok(Some(array))
    }
}

/// An array of Rust's as one of NumPy's, which frees it; or what NumPy raises.
///
/// # Errors
///
/// The array itself, whose element type is none of NumPy's own.
pub fn own<T: Element, D: Dimension + 'static>(
    py: Python<'_>,
    array: Array<T, D>,
) -> Result<PyResult<Bound<'_, PyAny>>, Array<T, D>> {
    let Some(number) = number(T::DTYPE) else { return Err(array) };
    // Extents and strides have room for one another.
    let (shape, mut strides) = (array.raw_dim(), array.raw_dim());
    for (bytes, stride) in strides.slice_mut().iter_mut().zip(array.strides()) {
        *bytes = (stride * size_of::<T>() as isize).cast_unsigned();
    }
    let mut array = Box::new(array);
    let data = array.as_mut_ptr().cast();
    // SAFETY: the dtype is one of NumPy's own; the array, wherever it is, keeps what is described.
    unsafe {
        let descr = PY_ARRAY_API.PyArray_DescrFromType(py, number);
        let strides = strides.slice().as_ptr().cast();
        Ok(new(py, descr, data, shape.slice(), strides, || capsule(py, array)))
    }
}

/// Makes a NumPy array of memory that the base keeps, if it has elements; NumPy allocates by itself
/// where there are none.
///
/// # Errors
///
/// What NumPy raises.
///
/// # Safety
///
/// The dtype is a new reference. There are as many strides, in bytes, as extents, and both describe
/// elements that the base keeps and that may be written to.
#[inline]
unsafe fn new<'py>(
    py: Python<'py>,
    descr: *mut PyArray_Descr,
    data: *mut u8,
    shape: &[usize],
    strides: *const isize,
    base: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let empty = shape.contains(&0);
    // SAFETY: the call steals the dtype and copies extents and strides. Its array has the base
    // before anybody sees it, or is let go of without a look at the memory.
    unsafe {
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            npyffi::get_type_object(py, npyffi::NpyTypes::PyArray_Type),
            descr,
            shape.len() as c_int,
            shape.as_ptr().cast_mut().cast(),
            if empty { std::ptr::null_mut() } else { strides.cast_mut() },
            if empty { std::ptr::null_mut() } else { data.cast::<c_void>() },
            npyffi::NPY_ARRAY_WRITEABLE,
            std::ptr::null_mut(),
        );
        let array = Bound::from_owned_ptr_or_err(py, array)?;
        if !empty
            && PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), base()?.into_ptr())
                != 0
        {
            return Err(PyErr::fetch(py));
        }
        Ok(array)
    }
}

/// # Safety
///
/// The object is a NumPy array that nobody else has.
unsafe fn clear_writeable(array: &Bound<'_, PyAny>) {
    // SAFETY: an array has flags, and nobody reads them meanwhile.
    unsafe {
        (*array.as_ptr().cast::<PyArrayObject>()).fields.flags &= !npyffi::NPY_ARRAY_WRITEABLE;
    }
}

/// Whether an owner is a NumPy array of what the view describes, and nobody else has it: it can be
/// handed out itself.
fn is_just(py: Python<'_>, held: &Held, view: &View) -> bool {
    let object = held.get(py);
    let Some(array) = plain_array(&object).filter(|_| held.is_sole(py)) else { return false };
    is_described_by(array, view)
        && dtype_of(array) == Some(view.dtype())
        && !view.is_swapped()
        && (view.is_read_only() || fields(array).flags & npyffi::NPY_ARRAY_WRITEABLE != 0)
}

/// The object that keeps an array's memory alive: the owner itself, or a capsule of it.
fn base(py: Python<'_>, owner: Owner) -> PyResult<Bound<'_, PyAny>> {
    match owner {
        Owner::Object(held) => Ok(held.into_bound(py)),
        // What has an address of its own needs no box around it.
        Owner::Versioned(tensor) => capsule(py, tensor),
        Owner::Exported(buffer) => capsule(py, buffer),
        owner => capsule(py, Box::new(owner)),
    }
}

/// What a capsule can own by one pointer.
trait Pointed: Sized {
    /// The capsule's name.
    const NAME: &CStr;
    fn into_raw(self) -> *mut c_void;
    /// # Safety
    ///
    /// The pointer comes from `into_raw` and is used once.
    unsafe fn free(pointer: *mut c_void);
}

impl Pointed for Managed<DLManagedTensorVersioned> {
    const NAME: &CStr = c"arraybridge.tensor";

    fn into_raw(self) -> *mut c_void {
        self.into_raw().cast()
    }

    unsafe fn free(pointer: *mut c_void) {
        // SAFETY: as the caller says.
        drop(unsafe { Managed::<DLManagedTensorVersioned>::from_raw(pointer.cast()) });
    }
}

impl Pointed for HeldBuffer {
    const NAME: &CStr = c"arraybridge.buffer";

    fn into_raw(self) -> *mut c_void {
        self.into_raw().cast()
    }

    unsafe fn free(pointer: *mut c_void) {
        // SAFETY: as the caller says.
        drop(unsafe { HeldBuffer::from_raw(pointer.cast()) });
    }
}

impl<T> Pointed for Box<T> {
    const NAME: &CStr = c"arraybridge.memory";

    fn into_raw(self) -> *mut c_void {
        Box::into_raw(self).cast()
    }

    unsafe fn free(pointer: *mut c_void) {
        // SAFETY: as the caller says.
        drop(unsafe { Box::<T>::from_raw(pointer.cast()) });
    }
}

fn capsule<T: Pointed>(py: Python<'_>, owner: T) -> PyResult<Bound<'_, PyAny>> {
    let pointer = owner.into_raw();
    // SAFETY: the pointer is owned and not null; the destructor takes it back, or this does where
    // there is no capsule.
    unsafe {
        let capsule = ffi::PyCapsule_New(pointer, T::NAME.as_ptr(), Some(drop_owner::<T>));
        if capsule.is_null() {
            T::free(pointer);
        }
        Bound::from_owned_ptr_or_err(py, capsule)
    }
}

unsafe extern "C" fn drop_owner<T: Pointed>(capsule: *mut ffi::PyObject) {
    // SAFETY: called once, by the interpreter, for a capsule that `capsule` made.
    unsafe {
        let pointer = ffi::PyCapsule_GetPointer(capsule, T::NAME.as_ptr());
        if !pointer.is_null() {
            T::free(pointer);
        }
    }
}
