//! NumPy arrays: described and made through NumPy's C structures, without calls into Python.

pub mod borrows;
mod dtype;
mod wrap;

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use dlpark::ffi::DLDevice;
use numpy::npyffi::{self, NpyTypes, PyArrayObject_fields};
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::ffi;
use pyo3::prelude::*;

use crate::interpreter::detached::{self, DetachedRef};
use crate::interpreter::error::attempt;
use crate::interpreter::{fork, interrupt};
use arraybridge_host::dtype::DType;
use arraybridge_host::overlap::Strided;
use arraybridge_tensor::memory::source::{Owner, Slot, Source};
use arraybridge_tensor::memory::view::View;

pub use dtype::{descr_of, named_by};
pub use wrap::{own, wrap};

/// A dtype that has no name here, as NumPy spells it.
pub struct UnknownDtype(pub String);

/// The class `numpy.ndarray`, once NumPy's C functions are found.
static NDARRAY: AtomicPtr<ffi::PyTypeObject> = AtomicPtr::new(ptr::null_mut());

/// Finds NumPy's C functions. rust-numpy itself panics if the import of NumPy fails or is interrupted.
///
/// # Errors
///
/// Any exception that the import raises.
pub fn load(py: Python<'_>) -> PyResult<()> {
    if NDARRAY.load(Ordering::Acquire).is_null() {
        let _making = fork::making();
        numpy::get_array_module(py)?;
        // SAFETY: the interpreter is attached.
        let class = unsafe { npyffi::get_type_object(py, NpyTypes::PyArray_Type) };
        NDARRAY.store(class, Ordering::Release);
    }
    Ok(())
}

/// The class `numpy.ndarray`; null if NumPy cannot be loaded.
#[inline]
fn class(py: Python<'_>) -> *mut ffi::PyTypeObject {
    #[cold]
    fn find(py: Python<'_>) -> *mut ffi::PyTypeObject {
        if let Err(error) = load(py) {
            // Once more, so that the question gets its answer, before an interrupt is raised again.
            let _ = attempt(py, load(py));
            interrupt::defer(py, error);
        }
        NDARRAY.load(Ordering::Acquire)
    }
    let found = NDARRAY.load(Ordering::Acquire);
    if found.is_null() { find(py) } else { found }
}

/// Returns whether an object is a NumPy array, of any subclass.
#[inline]
pub fn is_array(data: &Bound<'_, PyAny>) -> bool {
    is_plain_array(data) || {
        let class = class(data.py());
        // SAFETY: both are types, and the interpreter is attached.
        !class.is_null() && unsafe { ffi::PyType_IsSubtype(data.get_type_ptr(), class) != 0 }
    }
}

/// Returns whether an object is a NumPy array and of no subclass.
#[inline]
pub fn is_plain_array(data: &Bound<'_, PyAny>) -> bool {
    data.get_type_ptr() == class(data.py())
}

/// The object as a NumPy array, of any subclass, if it is one.
#[inline]
pub fn array<'a, 'py>(data: &'a Bound<'py, PyAny>) -> Option<&'a Bound<'py, PyUntypedArray>> {
    // PyO3's `cast` builds an error for every object that is not one.
    // SAFETY: the object is a NumPy array.
    is_array(data).then(|| unsafe { data.cast_unchecked() })
}

/// The object as a NumPy array of no subclass, if it is one.
#[inline]
pub fn plain_array<'a, 'py>(data: &'a Bound<'py, PyAny>) -> Option<&'a Bound<'py, PyUntypedArray>> {
    // SAFETY: the object is a NumPy array.
    is_plain_array(data).then(|| unsafe { data.cast_unchecked() })
}

/// The fields of an array's C structure.
#[inline]
fn fields<'a>(array: &'a Bound<'_, PyUntypedArray>) -> &'a PyArrayObject_fields {
    // SAFETY: a NumPy array has these fields. Only threads that are attached change them.
    unsafe { &*npyffi::_PyArray_GET_ITEM_DATA(array.as_array_ptr()) }
}

/// A NumPy array as described memory.
///
/// # Errors
///
/// [`UnknownDtype`] for strings, objects, records, dates and extended precision.
pub fn source(array: &Bound<'_, PyUntypedArray>) -> Result<Source, UnknownDtype> {
    let mut view = View::default();
    describe(array, &mut view)?;
    // SAFETY: the array keeps its memory alive, unless the user resizes it: see "What is assumed of Python
    // threads" in ARCHITECTURE.md.
    Ok(unsafe { Source::new(view, DetachedRef::new(array.as_any()).into()) })
}

/// Describes a NumPy array in `slot`; `None` for the arrays that [`source`] refuses.
#[inline]
pub fn describe_in_slot(array: &Bound<'_, PyUntypedArray>, slot: &mut Slot) -> Option<()> {
    let owner: Owner = DetachedRef::new(array.as_any()).into();
    // SAFETY: the array keeps its memory alive, unless the user resizes it: see "What is assumed of Python
    // threads" in ARCHITECTURE.md.
    unsafe { slot.describe(owner, |view| describe_in(array, view).ok_or(())) }.ok()
}

/// Describes a NumPy array in `view`.
///
/// # Errors
///
/// [`UnknownDtype`] for strings, objects, records, dates and extended precision.
#[inline]
pub fn describe(array: &Bound<'_, PyUntypedArray>, view: &mut View) -> Result<(), UnknownDtype> {
    describe_in(array, view).ok_or_else(|| {
        let dtype = array.as_any().getattr(crate::intern!(array.py(), "dtype"));
        UnknownDtype(dtype.map(|d| d.to_string()).unwrap_or_default())
    })
}

#[inline]
fn describe_in(array: &Bound<'_, PyUntypedArray>, view: &mut View) -> Option<()> {
    // SAFETY: an array has a dtype.
    let (dtype, swapped) = dtype::known(array.py(), unsafe { &*fields(array).descr })?;
    let fields = fields(array);
    // SAFETY: an array has as many strides as extents, and its elements are in one allocation.
    unsafe {
        view.copy_axes(array.shape(), array.strides());
        view.set_elements(fields.data.cast(), dtype, DLDevice::CPU);
    }
    view.restrict(fields.flags & npyffi::NPY_ARRAY_WRITEABLE == 0);
    view.set_swapped(swapped);
    Some(())
}

/// The elements of a NumPy array of any dtype.
pub fn elements<'a>(array: &'a Bound<'_, PyUntypedArray>) -> Strided<'a> {
    let (address, shape, strides) = (address(array), array.shape(), array.strides());
    Strided { address, shape, strides, size: item_size(array) }
}

fn item_size(array: &Bound<'_, PyUntypedArray>) -> usize {
    // SAFETY: an array has a dtype.
    unsafe { npyffi::PyDataType_ELSIZE(array.py(), fields(array).descr) as usize }
}

/// Returns whether a NumPy array is still as the view describes it.
pub fn is_described_by(array: &Bound<'_, PyUntypedArray>, view: &View) -> bool {
    let fields = fields(array);
    fields.data.cast() == view.data()
        && item_size(array) == view.dtype().size()
        && is_same(array.shape(), view.shape())
        && is_same(array.strides(), view.strides())
}

/// Returns whether extents or strides are the same. `==` calls `memcmp`, which costs more for a few
/// numbers.
#[inline]
fn is_same<T: PartialEq>(one: &[T], other: &[T]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(a, b)| a == b)
}

/// Returns whether a NumPy array owns its memory, or is a view of one that does, and this is the
/// only reference to the array and so to its memory.
pub fn is_unique_owner(array: &Bound<'_, PyUntypedArray>) -> bool {
    is_memory_of_others(array) == Some(false)
}

/// Returns whether others have references to a NumPy array, or to one that it is a view of. `None` if that is not known:
/// the memory belongs to no array, or threads have counts of their own.
pub fn is_memory_of_others(array: &Bound<'_, PyUntypedArray>) -> Option<bool> {
    let mut array = array.as_borrowed();
    // SAFETY: the object is alive and the interpreter attached.
    while unsafe { detached::is_unique(array.as_ptr()) } {
        let fields = fields(&array);
        if fields.flags & npyffi::NPY_ARRAY_OWNDATA != 0 {
            return Some(false);
        }
        if fields.base.is_null() {
            return None;
        }
        // SAFETY: the base of an array is an object that the array keeps alive.
        let base = unsafe { Borrowed::from_ptr(array.py(), fields.base) };
        if !is_plain_array(&base) {
            return None;
        }
        // SAFETY: it is a NumPy array.
        array = unsafe { base.cast_unchecked() };
    }
    (!cfg!(Py_GIL_DISABLED)).then_some(true)
}

/// The address where the elements of a NumPy array begin.
pub fn address(array: &Bound<'_, PyUntypedArray>) -> usize {
    fields(array).data as usize
}

/// Returns whether an array is marked as writeable.
pub fn is_writeable(array: &Bound<'_, PyUntypedArray>) -> bool {
    fields(array).flags & npyffi::NPY_ARRAY_WRITEABLE != 0
}

/// The element type of a NumPy array, if it has a name here.
#[inline]
pub fn dtype_of(array: &Bound<'_, PyUntypedArray>) -> Option<DType> {
    // SAFETY: an array has a dtype.
    dtype::known(array.py(), unsafe { &*fields(array).descr }).map(|(dtype, _)| dtype)
}
