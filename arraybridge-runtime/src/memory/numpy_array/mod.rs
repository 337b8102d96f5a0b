//! NumPy arrays, read and made without a call into Python.

mod dtype;
mod wrap;

use dlpark::ffi::DLDevice;
use numpy::npyffi::{self, PY_ARRAY_API, PyArrayObject_fields};
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::ffi;
use pyo3::prelude::*;

use crate::host::dtype::DType;
use crate::interpreter::held::Held;
use crate::memory::source::{Owner, Slot, Source};
use crate::memory::view::View;

pub use dtype::named_by;
pub use wrap::{own, wrap};

/// Why a NumPy array cannot be read: its dtype, in NumPy's words.
pub struct UnknownDtype(pub String);

/// Finds NumPy's C functions. What is used of them before this panics where NumPy cannot be imported,
/// and where the import is interrupted.
///
/// # Errors
///
/// What the import raises.
pub fn load(py: Python<'_>) -> PyResult<()> {
    numpy::get_array_module(py)?;
    // SAFETY: the interpreter is attached.
    unsafe { PY_ARRAY_API.PyArray_GetNDArrayCVersion(py) };
    Ok(())
}

/// Whether an object is a NumPy array, of any subclass.
#[inline]
pub fn is_array(data: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the object is alive and the interpreter attached.
    unsafe { npyffi::PyArray_Check(data.py(), data.as_ptr()) != 0 }
}

/// Whether an object is a NumPy array and of no subclass.
#[inline]
pub fn is_plain_array(data: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the object is alive and the interpreter attached.
    unsafe { npyffi::PyArray_CheckExact(data.py(), data.as_ptr()) != 0 }
}

/// The object as a NumPy array, of any subclass, if it is one.
#[inline]
pub fn array<'a, 'py>(data: &'a Bound<'py, PyAny>) -> Option<&'a Bound<'py, PyUntypedArray>> {
    // `cast` looks for the class anew to say what the object is not.
    // SAFETY: the object is a NumPy array.
    is_array(data).then(|| unsafe { data.cast_unchecked() })
}

/// The object as a NumPy array of no subclass, if it is one.
#[inline]
pub fn plain_array<'a, 'py>(data: &'a Bound<'py, PyAny>) -> Option<&'a Bound<'py, PyUntypedArray>> {
    // SAFETY: the object is a NumPy array.
    is_plain_array(data).then(|| unsafe { data.cast_unchecked() })
}

/// The fields of an array's structure.
#[inline]
fn fields<'a>(array: &'a Bound<'_, PyUntypedArray>) -> &'a PyArrayObject_fields {
    // SAFETY: the object is a NumPy array, so that they are there; only the thread that is attached
    // changes them.
    unsafe { &(*array.as_array_ptr()).fields }
}

/// The extents and the strides in bytes.
#[inline]
fn axes(fields: &PyArrayObject_fields) -> (&[usize], &[isize]) {
    match fields.nd as usize {
        0 => (&[], &[]),
        // SAFETY: the extents, none of which is negative, and the strides of an array with axes are `nd`
        // long, and change only where the array is.
        ndim => unsafe {
            (
                std::slice::from_raw_parts(fields.dimensions.cast(), ndim),
                std::slice::from_raw_parts(fields.strides, ndim),
            )
        },
    }
}

/// A NumPy array as described memory.
///
/// # Errors
///
/// [`UnknownDtype`] for strings, objects, records, dates and extended precision.
pub fn source(array: &Bound<'_, PyUntypedArray>) -> Result<Source, UnknownDtype> {
    let mut view = View::default();
    describe(array, &mut view)?;
    // SAFETY: the array keeps its memory as long as it lives; what NumPy lets its user do to that is
    // under "What is assumed of Python threads" in ARCHITECTURE.md.
    Ok(unsafe { Source::new(view, Owner::Object(Held::new(array.as_any()))) })
}

/// Describes a NumPy array in `slot`.
///
/// # Errors
///
/// As [`source`], in fewer words.
#[inline]
pub fn describe_in_slot(array: &Bound<'_, PyUntypedArray>, slot: &mut Slot) -> Option<()> {
    let owner = Owner::Object(Held::new(array.as_any()));
    // SAFETY: the array keeps its memory as long as it lives; what NumPy lets its user do to that is
    // under "What is assumed of Python threads" in ARCHITECTURE.md.
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
        let dtype = array.as_any().getattr(pyo3::intern!(array.py(), "dtype"));
        UnknownDtype(dtype.map(|d| d.to_string()).unwrap_or_default())
    })
}

#[inline]
fn describe_in(array: &Bound<'_, PyUntypedArray>, view: &mut View) -> Option<()> {
    let fields = fields(array);
    // SAFETY: an array has a dtype.
    let descr = unsafe { &*fields.descr };
    let dtype = dtype::dtype(array.py(), descr)?;
    let (shape, strides) = axes(fields);
    // SAFETY: there are as many strides as extents, and NumPy says that the elements are in the array's
    // memory.
    unsafe {
        view.set_axes(shape.iter().copied(), strides.iter().copied());
        view.set_elements(fields.data.cast(), dtype, DLDevice::CPU);
    }
    view.restrict(fields.flags & npyffi::NPY_ARRAY_WRITEABLE == 0);
    view.set_swapped(dtype::is_swapped(descr, dtype));
    Some(())
}

/// Whether a NumPy array still is where and as it was described.
pub fn is_described_by(array: &Bound<'_, PyUntypedArray>, view: &View) -> bool {
    let fields = fields(array);
    // SAFETY: an array has a dtype.
    let size = unsafe { npyffi::PyDataType_ELSIZE(array.py(), fields.descr) } as usize;
    fields.data.cast() == view.data()
        && size == view.dtype().size()
        && axes(fields) == (view.shape(), view.strides())
}

/// Whether a NumPy array has memory of its own, and nobody else has the array.
pub fn is_sole_owner(array: &Bound<'_, PyUntypedArray>) -> bool {
    // SAFETY: the object is alive and the interpreter attached.
    let references = unsafe { ffi::Py_REFCNT(array.as_ptr()) };
    fields(array).flags & npyffi::NPY_ARRAY_OWNDATA != 0 && references == 1
}

/// The element type of a NumPy array, `None` if it is none that we know.
#[inline]
pub fn dtype_of(array: &Bound<'_, PyUntypedArray>) -> Option<DType> {
    // SAFETY: an array has a dtype.
    dtype::dtype(array.py(), unsafe { &*fields(array).descr })
}
