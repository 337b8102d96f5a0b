//! NumPy arrays, read and made without a call into Python.

use std::ffi::{CStr, c_int, c_void};

use ::ndarray::{Array, Dimension};
use dlpark::Managed;
use dlpark::ffi::{DLDevice, DLManagedTensorVersioned};
use numpy::npyffi::{self, NPY_TYPES, PY_ARRAY_API, PyArray_Descr, PyArrayObject};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::host::dtype::DType;
use crate::interpreter::held::{Held, HeldBuffer};
use crate::memory::element::Element;
use crate::memory::view::{Owner, View};

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
pub fn is_array(data: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the object is alive and the interpreter attached.
    unsafe { npyffi::PyArray_Check(data.py(), data.as_ptr()) != 0 }
}

/// Whether an object is a NumPy array and of no subclass.
pub fn is_plain_array(data: &Bound<'_, PyAny>) -> bool {
    // SAFETY: as above.
    unsafe { npyffi::PyArray_CheckExact(data.py(), data.as_ptr()) != 0 }
}

/// Describes a NumPy array in `view`.
///
/// # Errors
///
/// [`UnknownDtype`] for strings, objects, records, dates and extended precision.
pub fn describe(data: &Bound<'_, PyAny>, view: &mut View) -> Result<(), UnknownDtype> {
    describe_in(data, view).ok_or_else(|| {
        let dtype = data.getattr(pyo3::intern!(data.py(), "dtype"));
        UnknownDtype(dtype.map(|d| d.to_string()).unwrap_or_default())
    })
}

#[inline]
fn describe_in(data: &Bound<'_, PyAny>, view: &mut View) -> Option<()> {
    debug_assert!(is_array(data));
    // SAFETY: the object is a NumPy array, so these fields are there.
    let (fields, descr) = unsafe {
        let fields = &(*data.as_ptr().cast::<PyArrayObject>()).fields;
        (fields, &*fields.descr)
    };
    let dtype = dtype(data.py(), descr)?;
    match fields.nd as usize {
        0 => view.set_axes(&[], &[]),
        ndim => {
            // SAFETY: the extents and strides of an array with axes are `nd` long.
            let (shape, strides) = unsafe {
                (
                    std::slice::from_raw_parts(fields.dimensions.cast(), ndim),
                    std::slice::from_raw_parts(fields.strides, ndim),
                )
            };
            view.set_axes(shape, strides);
        }
    }
    view.data = fields.data.cast();
    view.dtype = dtype;
    view.read_only = fields.flags & npyffi::NPY_ARRAY_WRITEABLE == 0;
    view.swapped = is_swapped(descr, dtype);
    view.device = DLDevice::CPU;
    Some(())
}

/// Whether a NumPy array still is where and as it was described.
pub fn is_described_by(data: &Bound<'_, PyAny>, view: &View) -> bool {
    debug_assert!(is_array(data));
    // SAFETY: the object is a NumPy array, so these fields are there; extents and strides are `nd`
    // long.
    unsafe {
        let fields = &(*data.as_ptr().cast::<PyArrayObject>()).fields;
        let ndim = view.shape.len();
        fields.data.cast() == view.data
            && fields.nd as usize == ndim
            && npyffi::PyDataType_ELSIZE(data.py(), fields.descr) as usize == view.dtype.size()
            && (ndim == 0
                || (std::slice::from_raw_parts(fields.dimensions.cast::<usize>(), ndim)
                    == &view.shape[..]
                    && std::slice::from_raw_parts(fields.strides, ndim) == &view.strides[..]))
    }
}

/// Whether a NumPy array has memory of its own, and nobody else has the array.
pub fn is_sole_owner(data: &Bound<'_, PyAny>) -> bool {
    debug_assert!(is_array(data));
    // SAFETY: the object is a NumPy array, so this field is there.
    unsafe {
        (*data.as_ptr().cast::<PyArrayObject>()).fields.flags & npyffi::NPY_ARRAY_OWNDATA != 0
            && ffi::Py_REFCNT(data.as_ptr()) == 1
    }
}

/// The element type of a NumPy array, `None` if it is none that we know.
pub fn dtype_of(data: &Bound<'_, PyAny>) -> Option<DType> {
    debug_assert!(is_array(data));
    // SAFETY: the object is a NumPy array, so it has a dtype.
    dtype(data.py(), unsafe { &*(*data.as_ptr().cast::<PyArrayObject>()).fields.descr })
}

/// The element type that a NumPy dtype of the machine's byte order is; `None` for other objects.
pub fn named_by(object: &Bound<'_, PyAny>) -> Option<DType> {
    let py = object.py();
    // SAFETY: the object is alive and the interpreter attached; the cast is of a dtype.
    let descr = unsafe {
        let class = npyffi::get_type_object(py, npyffi::NpyTypes::PyArrayDescr_Type);
        if ffi::PyObject_TypeCheck(object.as_ptr(), class) == 0 {
            return None;
        }
        &*object.as_ptr().cast::<PyArray_Descr>()
    };
    dtype(py, descr).filter(|dtype| !is_swapped(descr, *dtype))
}

fn is_swapped(descr: &PyArray_Descr, dtype: DType) -> bool {
    let foreign = if cfg!(target_endian = "little") { b'>' } else { b'<' };
    descr.fields.byteorder as u8 == foreign && dtype.size() > 1
}

fn dtype(py: Python<'_>, descr: &PyArray_Descr) -> Option<DType> {
    let number = descr.fields.type_num;
    if let Some(dtype) = BY_NUMBER.get(number as usize).copied().flatten() {
        return Some(dtype);
    }
    if number < NPY_TYPES::NPY_USERDEF as c_int {
        return None;
    }
    // SAFETY: a dtype's type object is a type, and lives as long as the dtype.
    let class = unsafe { Bound::from_borrowed_ptr(py, descr.fields.typeobj.cast()) };
    let module = class.getattr(pyo3::intern!(py, "__module__")).ok()?;
    if module.cast::<PyString>().ok()?.to_str().ok()? != "ml_dtypes" {
        return None;
    }
    let name = class.getattr(pyo3::intern!(py, "__name__")).ok()?;
    DType::from_name(name.cast::<PyString>().ok()?.to_str().ok()?)
}

const fn integer(size: usize, signed: bool) -> Option<DType> {
    Some(match (size, signed) {
        (1, true) => DType::Int8,
        (2, true) => DType::Int16,
        (4, true) => DType::Int32,
        (8, true) => DType::Int64,
        (1, false) => DType::Uint8,
        (2, false) => DType::Uint16,
        (4, false) => DType::Uint32,
        _ => DType::Uint64,
    })
}

/// NumPy's type numbers: those of C's types, whose width the platform decides.
const BY_NUMBER: [Option<DType>; 24] = {
    let mut table = [None; 24];
    table[NPY_TYPES::NPY_BOOL as usize] = Some(DType::Bool);
    table[NPY_TYPES::NPY_BYTE as usize] = integer(1, true);
    table[NPY_TYPES::NPY_UBYTE as usize] = integer(1, false);
    table[NPY_TYPES::NPY_SHORT as usize] = integer(size_of::<std::ffi::c_short>(), true);
    table[NPY_TYPES::NPY_USHORT as usize] = integer(size_of::<std::ffi::c_ushort>(), false);
    table[NPY_TYPES::NPY_INT as usize] = integer(size_of::<c_int>(), true);
    table[NPY_TYPES::NPY_UINT as usize] = integer(size_of::<std::ffi::c_uint>(), false);
    table[NPY_TYPES::NPY_LONG as usize] = integer(size_of::<std::ffi::c_long>(), true);
    table[NPY_TYPES::NPY_ULONG as usize] = integer(size_of::<std::ffi::c_ulong>(), false);
    table[NPY_TYPES::NPY_LONGLONG as usize] = integer(size_of::<std::ffi::c_longlong>(), true);
    table[NPY_TYPES::NPY_ULONGLONG as usize] = integer(size_of::<std::ffi::c_ulonglong>(), false);
    table[NPY_TYPES::NPY_HALF as usize] = Some(DType::Float16);
    table[NPY_TYPES::NPY_FLOAT as usize] = Some(DType::Float32);
    table[NPY_TYPES::NPY_DOUBLE as usize] = Some(DType::Float64);
    table[NPY_TYPES::NPY_CFLOAT as usize] = Some(DType::Complex64);
    table[NPY_TYPES::NPY_CDOUBLE as usize] = Some(DType::Complex128);
    table
};

fn number(dtype: DType) -> Option<c_int> {
    let number = match dtype {
        DType::Bool => NPY_TYPES::NPY_BOOL,
        DType::Int8 => NPY_TYPES::NPY_BYTE,
        DType::Uint8 => NPY_TYPES::NPY_UBYTE,
        DType::Int16 => NPY_TYPES::NPY_SHORT,
        DType::Uint16 => NPY_TYPES::NPY_USHORT,
        DType::Int32 => NPY_TYPES::NPY_INT,
        DType::Uint32 => NPY_TYPES::NPY_UINT,
        // The number whose name is `int64` for NumPy is the platform's `long` where that has
        // eight bytes.
        DType::Int64 if size_of::<std::ffi::c_long>() == 8 => NPY_TYPES::NPY_LONG,
        DType::Uint64 if size_of::<std::ffi::c_long>() == 8 => NPY_TYPES::NPY_ULONG,
        DType::Int64 => NPY_TYPES::NPY_LONGLONG,
        DType::Uint64 => NPY_TYPES::NPY_ULONGLONG,
        DType::Float16 => NPY_TYPES::NPY_HALF,
        DType::Float32 => NPY_TYPES::NPY_FLOAT,
        DType::Float64 => NPY_TYPES::NPY_DOUBLE,
        DType::Complex64 => NPY_TYPES::NPY_CFLOAT,
        DType::Complex128 => NPY_TYPES::NPY_CDOUBLE,
        _ => return None,
    };
    Some(number as c_int)
}

/// A new reference to NumPy's dtype object, or `None` when ml_dtypes, which has it, is absent.
fn descr<'py>(
    py: Python<'py>,
    dtype: DType,
    extended: impl FnOnce(DType) -> Option<Bound<'py, PyAny>>,
) -> Option<*mut PyArray_Descr> {
    match number(dtype) {
        // SAFETY: the number is one of NumPy's own.
        Some(number) => Some(unsafe { PY_ARRAY_API.PyArray_DescrFromType(py, number) }),
        None => extended(dtype).map(|object| object.into_ptr().cast()),
    }
}

/// Makes a NumPy array of the memory that a view describes; it is read-only if the view is.
///
/// `extended` gives the dtype object of a dtype that is not NumPy's own; where it gives none, neither
/// does this.
///
/// # Errors
///
/// What NumPy raises.
pub fn wrap_view<'py>(
    py: Python<'py>,
    view: &View,
    owner: Owner,
    extended: impl FnOnce(DType) -> Option<Bound<'py, PyAny>>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let owner = match owner {
        Owner::Object(held) if is_just(py, &held, view) => {
            let array = held.into_bound(py);
            if view.read_only {
                clear_writeable(&array);
            }
            return Ok(Some(array));
        }
        owner => owner,
    };
    let Some(descr) = descr(py, view.dtype, extended) else { return Ok(None) };
    let strides = view.strides.as_ptr();
    // SAFETY: the reference is new, and the owner keeps what is described.
    let array = unsafe { new(py, descr, view.data, &view.shape, strides, || base(py, owner))? };
    if view.read_only {
        clear_writeable(&array);
    }
    Ok(Some(array))
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

fn clear_writeable(array: &Bound<'_, PyAny>) {
    // SAFETY: the object is a NumPy array that nobody else has seen.
    unsafe {
        (*array.as_ptr().cast::<PyArrayObject>()).fields.flags &= !npyffi::NPY_ARRAY_WRITEABLE;
    }
}

/// Whether an owner is a NumPy array of what the view describes, and nobody else has it: it can be
/// handed out itself.
fn is_just(py: Python<'_>, held: &Held, view: &View) -> bool {
    let object = held.get(py);
    if !is_plain_array(&object) || !held.is_sole(py) {
        return false;
    }
    // SAFETY: the object is a NumPy array.
    let flags = unsafe { (*object.as_ptr().cast::<PyArrayObject>()).fields.flags };
    is_described_by(&object, view)
        && dtype_of(&object) == Some(view.dtype)
        && !view.swapped
        && (view.read_only || flags & npyffi::NPY_ARRAY_WRITEABLE != 0)
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
