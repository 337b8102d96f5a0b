//! Memory of any owner as a NumPy array.

use std::ffi::{CStr, c_int, c_void};
use std::ptr::{self, NonNull};

use dlpark::ffi::DLManagedTensorVersioned;
use dlpark::{Managed, OpaqueContext};
use ndarray::{Array, Dimension};
use numpy::PyArrayDescr;
use numpy::npyffi::{self, PY_ARRAY_API};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::dtype::{builtin, descr};
use super::{dtype_of, fields, is_described_by, load, plain_array};
use crate::interpreter::detached::{DetachedBuffer, DetachedRef};
use crate::interpreter::held::apart;
use arraybridge_host::dtype::DType;
use arraybridge_tensor::memory::element::Element;
use arraybridge_tensor::memory::source::{Foreign, Outgoing, Owner};
use arraybridge_tensor::memory::view::View;

/// Makes a NumPy array of host memory. It is read-only if the view is.
///
/// `extended` returns the dtype object of a dtype that NumPy does not have itself. If there is none, the
/// result is `None`.
///
/// # Errors
///
/// Any exception that NumPy raises, and `BufferError` for memory that NumPy cannot describe: that
/// of a device, and elements whose bytes are swapped.
pub fn wrap<'py>(
    py: Python<'py>,
    memory: Outgoing<'_>,
    extended: impl FnOnce(DType) -> Option<Bound<'py, PyAny>>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let (view, owner) = memory.into_parts();
    if !view.is_on_host() || view.is_swapped() {
        return Err(not_wrapped(view));
    }
    let owner = match owner {
        Owner::Foreign(object)
            if object.get().is_some_and(|object| is_this_array(py, object, view)) =>
        {
            let array = object_of(py, object)?;
            if view.is_read_only() {
                // SAFETY: it is a NumPy array, and this is the only reference to it.
                unsafe { clear_writeable(&array) };
            }
            return Ok(Some(array));
        }
        owner => owner,
    };
    load(py)?;
    let Some(descr) = descr(py, view.dtype(), extended) else { return Ok(None) };
    let memory = (view.data(), view.strides().as_ptr());
    // SAFETY: the view has as many strides as extents, and the owner keeps its elements alive. The array
    // is new, so this is the only reference to it.
    unsafe {
        let array = new(descr, view.shape(), memory, || base(py, owner))?;
        if view.is_read_only() {
            clear_writeable(&array);
        }
        Ok(Some(array))
    }
}

#[cold]
fn not_wrapped(view: &View) -> PyErr {
    PyBufferError::new_err(match view.is_on_host() {
        true => "NumPy cannot share elements whose bytes are swapped",
        false => "NumPy cannot share memory of a device",
    })
}

/// The size in bytes of the arrays that are copied into memory of NumPy's. To make and to free a capsule takes as
/// long.
const COPIED: usize = 2048;

/// A NumPy array that owns an array of Rust, or the exception that NumPy raises. A small array is copied.
///
/// # Errors
///
/// The array itself, if NumPy does not have its element type.
pub fn own<T: Element, D: Dimension + 'static>(
    py: Python<'_>,
    array: Array<T, D>,
) -> Result<PyResult<Bound<'_, PyAny>>, Array<T, D>> {
    if let Err(error) = load(py) {
        return Ok(Err(error));
    }
    let Some(descr) = builtin(py, T::DTYPE) else { return Err(array) };
    if let Some(elements) = array.as_slice().filter(|elements| size_of_val(*elements) <= COPIED) {
        return Ok(copied(descr, array.shape(), elements));
    }
    // The strides go where there is room for them: a dimension has as many numbers.
    let (shape, mut strides) = (array.raw_dim(), array.raw_dim());
    for (bytes, stride) in strides.slice_mut().iter_mut().zip(array.strides()) {
        *bytes = (stride * size_of::<T>() as isize).cast_unsigned();
    }
    let mut array = Box::new(array);
    let memory = (array.as_mut_ptr().cast(), strides.slice().as_ptr().cast());
    // SAFETY: shape and strides describe the elements of the array, which the capsule owns.
    Ok(unsafe { new(descr, shape.slice(), memory, || capsule(py, array)) })
}

/// A NumPy array in NumPy's own memory, with elements in row-major order.
fn copied<'py, T: Element>(
    descr: Bound<'py, PyArrayDescr>,
    shape: &[usize],
    elements: &[T],
) -> PyResult<Bound<'py, PyAny>> {
    debug_assert_eq!(shape.iter().product::<usize>(), elements.len());
    // SAFETY: the dtype is that of the elements, and NumPy allocates as many of them. Nobody else has the new array.
    unsafe {
        let array = allocated(descr, shape, None)?;
        let data = (*npyffi::_PyArray_GET_ITEM_DATA(array.as_ptr().cast())).data;
        data.cast::<T>().copy_from_nonoverlapping(elements.as_ptr(), elements.len());
        Ok(array)
    }
}

/// The address of an array's elements, and its strides.
type Memory = (*mut u8, *const isize);

/// Makes a NumPy array of memory that `base` keeps alive. NumPy allocates an array without elements
/// itself.
///
/// rust-numpy's own constructor is private, and takes memory only together with a Rust value of one
/// of its element types.
///
/// # Safety
///
/// There are as many strides, in bytes, as extents. They describe elements that `base` keeps alive and
/// that may be written to, or the caller makes the array read-only before anybody sees it.
#[inline]
unsafe fn new<'py>(
    descr: Bound<'py, PyArrayDescr>,
    shape: &[usize],
    memory: Memory,
    base: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = descr.py();
    // SAFETY: the caller vouches for the strides and the elements. NumPy takes over the base. An array that gets none
    // is dropped before anybody reads it.
    unsafe {
        if shape.contains(&0) {
            return allocated(descr, shape, None);
        }
        let array = allocated(descr, shape, Some(memory))?;
        match PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), base()?.into_ptr()) {
            0 => Ok(array),
            _ => Err(PyErr::fetch(py)),
        }
    }
}

/// Makes a NumPy array that can be written to and has no base. Without memory, NumPy allocates the elements in row-major
/// order.
///
/// # Safety
///
/// The memory has as many strides, in bytes, as extents, and they describe elements of the dtype.
#[inline]
unsafe fn allocated<'py>(
    descr: Bound<'py, PyArrayDescr>,
    shape: &[usize],
    memory: Option<Memory>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = descr.py();
    let (data, strides) = memory.unwrap_or((ptr::null_mut(), ptr::null()));
    // SAFETY: NumPy takes over the dtype, and copies extents and strides.
    unsafe {
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            npyffi::get_type_object(py, npyffi::NpyTypes::PyArray_Type),
            descr.into_ptr().cast(),
            shape.len() as c_int,
            shape.as_ptr().cast_mut().cast(),
            strides.cast_mut(),
            data.cast::<c_void>(),
            if data.is_null() { 0 } else { npyffi::NPY_ARRAY_WRITEABLE },
            ptr::null_mut(),
        );
        Bound::from_owned_ptr_or_err(py, array)
    }
}

/// # Safety
///
/// The object is a NumPy array, and this is the only reference to it.
unsafe fn clear_writeable(array: &Bound<'_, PyAny>) {
    // SAFETY: a NumPy array has flags, and nobody else reads them.
    unsafe {
        (*npyffi::_PyArray_GET_ITEM_DATA(array.as_ptr().cast())).flags &=
            !npyffi::NPY_ARRAY_WRITEABLE;
    }
}

/// Returns whether an owner is the NumPy array that the view describes, with no other reference to
/// it: then the array itself is the result.
fn is_this_array(py: Python<'_>, object: &DetachedRef, view: &View) -> bool {
    let is_unique = object.is_unique(py);
    let object = object.get(py);
    let Some(array) = plain_array(&object).filter(|_| is_unique) else { return false };
    is_described_by(array, view)
        && dtype_of(array) == Some(view.dtype())
        && (view.is_read_only() || fields(array).flags & npyffi::NPY_ARRAY_WRITEABLE != 0)
}

/// The object that keeps an array's memory alive: the owner itself, or a capsule of it.
fn base(py: Python<'_>, owner: Owner) -> PyResult<Bound<'_, PyAny>> {
    match owner {
        Owner::Foreign(foreign) => object_of(py, foreign),
        // This needs no box: a capsule holds one pointer, and that is what it is.
        Owner::Versioned(tensor) => capsule(py, VersionedTensor(tensor)),
        owner => capsule(py, Box::new(owner)),
    }
}

/// The object itself, or a capsule of what is none.
fn object_of(py: Python<'_>, foreign: Foreign) -> PyResult<Bound<'_, PyAny>> {
    match foreign.downcast::<DetachedRef>() {
        Ok(object) => Ok(object.into_bound(py)),
        Err(other) => match other.downcast::<DetachedBuffer>() {
            Ok(buffer) => capsule(py, buffer),
            Err(other) => capsule(py, Box::new(Owner::Foreign(other))),
        },
    }
}

/// A tensor as the contents of a capsule.
struct VersionedTensor(Managed<DLManagedTensorVersioned>);

// SAFETY: a managed tensor may be dropped on any thread.
unsafe impl OpaqueContext for VersionedTensor {
    fn into_raw(self) -> *mut c_void {
        self.0.into_raw().cast()
    }

    unsafe fn drop_raw(raw: *mut c_void) {
        // SAFETY: by the trait's contract the pointer comes from `into_raw`, and is used once.
        drop(unsafe { Managed::<DLManagedTensorVersioned>::from_raw(raw.cast()) });
    }
}

const NAME: &CStr = c"arraybridge.memory";

/// A capsule that owns memory. (PyO3's own conversion boxes what has a pointer already, and leaks what
/// it gets no capsule for.)
fn capsule<C: OpaqueContext>(py: Python<'_>, owner: C) -> PyResult<Bound<'_, PyAny>> {
    unsafe extern "C" fn destructor<C: OpaqueContext>(capsule: *mut ffi::PyObject) {
        // SAFETY: the interpreter calls this once, for a capsule of this name, whose pointer comes from
        // `into_raw`.
        apart(|| unsafe { C::drop_raw(ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr())) });
    }
    let raw = owner.into_raw();
    let pointer = NonNull::new(raw).expect("an owner has an address");
    // SAFETY: the pointer is an owner's, which any thread may drop, and the destructor drops it. Without
    // a capsule nobody else does.
    unsafe {
        let made =
            PyCapsule::new_with_pointer_and_destructor(py, pointer, NAME, Some(destructor::<C>));
        made.map(Bound::into_any).inspect_err(|_| C::drop_raw(raw))
    }
}

#[cfg(test)]
mod tests;
