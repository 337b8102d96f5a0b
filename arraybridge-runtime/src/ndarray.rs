//! NumPy arrays, read and made without a call into Python.

use std::ffi::{CStr, c_int, c_void};

use dlpark::Managed;
use dlpark::ffi::{DLDevice, DLManagedTensorVersioned};
use numpy::npyffi::{self, NPY_TYPES, PY_ARRAY_API, PyArray_Descr, PyArrayObject};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::held::Held;
use crate::live::Live;
use crate::spec::DType;
use crate::view::{Dims, Owner, Source, View};

/// Why a NumPy array cannot be read: its dtype, in NumPy's words.
pub struct UnknownDtype(pub String);

/// Whether an object is a NumPy array, of any subclass.
pub fn is_array(data: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the object is alive and the interpreter attached.
    unsafe { npyffi::PyArray_Check(data.py(), data.as_ptr()) != 0 }
}

/// Describes a NumPy array; the source holds the array itself.
///
/// # Errors
///
/// [`UnknownDtype`] for strings, objects, records, dates and extended precision.
pub fn read(data: &Bound<'_, PyAny>) -> Result<Source, UnknownDtype> {
    let view = view(data).ok_or_else(|| {
        let dtype = data.getattr(pyo3::intern!(data.py(), "dtype"));
        UnknownDtype(dtype.map(|d| d.to_string()).unwrap_or_default())
    })?;
    Ok(Source { view, owner: Owner::Object(Held::new(data)) })
}

/// Describes an array of NumPy's own class, if its element type is one that we know.
pub fn view_of(data: &Bound<'_, PyAny>) -> Option<View> {
    // SAFETY: the object is alive and the interpreter attached.
    let exact = unsafe { npyffi::PyArray_CheckExact(data.py(), data.as_ptr()) != 0 };
    if exact { view(data) } else { None }
}

#[inline]
fn view(data: &Bound<'_, PyAny>) -> Option<View> {
    debug_assert!(is_array(data));
    // SAFETY: the object is a NumPy array, so these fields are there; its extents and strides
    // are `nd` long, and are copied.
    unsafe {
        let fields = &(*data.as_ptr().cast::<PyArrayObject>()).fields;
        let ndim = fields.nd as usize;
        let (shape, strides): (Dims<usize>, Dims<isize>) = match ndim {
            0 => Default::default(),
            _ => (
                Dims::from_slice(std::slice::from_raw_parts(fields.dimensions.cast(), ndim)),
                Dims::from_slice(std::slice::from_raw_parts(fields.strides, ndim)),
            ),
        };
        let descr = &*fields.descr;
        let dtype = dtype(data.py(), descr)?;
        let foreign = if cfg!(target_endian = "little") { b'>' } else { b'<' };
        Some(View {
            data: fields.data.cast(),
            dtype,
            shape,
            strides,
            read_only: fields.flags & npyffi::NPY_ARRAY_WRITEABLE == 0,
            swapped: descr.fields.byteorder as u8 == foreign && dtype.size() > 1,
            device: DLDevice::CPU,
        })
    }
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

/// The element type of a NumPy array, `None` if it is none that we know.
pub fn dtype_of(data: &Bound<'_, PyAny>) -> Option<DType> {
    debug_assert!(is_array(data));
    // SAFETY: the object is a NumPy array, so it has a dtype.
    dtype(data.py(), unsafe { &*(*data.as_ptr().cast::<PyArrayObject>()).fields.descr })
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
fn descr(py: Python<'_>, numpy: &Live, dtype: DType) -> Option<*mut PyArray_Descr> {
    match number(dtype) {
        // SAFETY: the number is one of NumPy's own.
        Some(number) => Some(unsafe { PY_ARRAY_API.PyArray_DescrFromType(py, number) }),
        None => numpy.dtype_object(py, dtype).map(|object| object.into_ptr().cast()),
    }
}

/// Makes a NumPy array of a source's memory; it is read-only if the view is.
///
/// `None` when NumPy lacks the dtype, which comes from ml_dtypes.
///
/// # Errors
///
/// What NumPy raises.
pub fn wrap<'py>(
    py: Python<'py>,
    numpy: &Live,
    source: Source,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Source { view, owner } = source;
    let Some(descr) = descr(py, numpy, view.dtype) else { return Ok(None) };
    let writeable = if view.read_only { 0 } else { npyffi::NPY_ARRAY_WRITEABLE };
    let empty = view.is_empty();
    let (mut shape, mut strides) = (view.shape, view.strides);
    // SAFETY: the dtype reference is stolen by the call; extents and strides are as long as
    // `nd`, and the memory that they describe is kept alive by the owner, which becomes the
    // array's base. NumPy allocates by itself for arrays without elements.
    unsafe {
        let class = npyffi::get_type_object(py, npyffi::NpyTypes::PyArray_Type);
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            class,
            descr,
            shape.len() as c_int,
            shape.as_mut_ptr().cast(),
            if empty { std::ptr::null_mut() } else { strides.as_mut_ptr() },
            if empty { std::ptr::null_mut() } else { view.data.cast::<c_void>() },
            writeable,
            std::ptr::null_mut(),
        );
        let array = Bound::from_owned_ptr_or_err(py, array)?;
        if !empty {
            let base = base(py, owner)?;
            if PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), base.into_ptr()) != 0 {
                return Err(PyErr::fetch(py));
            }
        }
        if view.read_only {
            // NumPy takes the flag from the arguments only along with the memory.
            (*array.as_ptr().cast::<PyArrayObject>()).fields.flags &= !npyffi::NPY_ARRAY_WRITEABLE;
        }
        Ok(Some(array))
    }
}

const BASE: &CStr = c"arraybridge.memory";

/// The object that keeps an array's memory alive.
fn base(py: Python<'_>, owner: Owner) -> PyResult<Bound<'_, PyAny>> {
    let owner = match owner {
        Owner::Versioned(tensor) => return tensor_base(py, tensor),
        owner => owner,
    };
    let owner = Box::into_raw(Box::new(owner));
    // SAFETY: the pointer is a boxed owner, which the destructor frees.
    unsafe {
        let capsule = ffi::PyCapsule_New(owner.cast(), BASE.as_ptr(), Some(drop_base));
        if capsule.is_null() {
            drop(Box::from_raw(owner));
        }
        Bound::from_owned_ptr_or_err(py, capsule)
    }
}

const TENSOR_BASE: &CStr = c"arraybridge.tensor";

/// A tensor as a base: its own address is in the capsule, which saves an allocation.
fn tensor_base(
    py: Python<'_>,
    tensor: Managed<DLManagedTensorVersioned>,
) -> PyResult<Bound<'_, PyAny>> {
    let tensor = tensor.into_raw();
    // SAFETY: the tensor is owned and not null; the destructor takes it back, or this does where
    // there is no capsule.
    unsafe {
        let capsule = ffi::PyCapsule_New(tensor.cast(), TENSOR_BASE.as_ptr(), Some(drop_tensor));
        if capsule.is_null() {
            drop(Managed::from_raw(tensor));
        }
        Bound::from_owned_ptr_or_err(py, capsule)
    }
}

unsafe extern "C" fn drop_tensor(capsule: *mut ffi::PyObject) {
    // SAFETY: called once, by the interpreter, for a capsule that `tensor_base` made.
    unsafe {
        let tensor = ffi::PyCapsule_GetPointer(capsule, TENSOR_BASE.as_ptr());
        if !tensor.is_null() {
            drop(Managed::from_raw(tensor.cast::<DLManagedTensorVersioned>()));
        }
    }
}

unsafe extern "C" fn drop_base(capsule: *mut ffi::PyObject) {
    // SAFETY: called once, by the interpreter, for a capsule that `base` made.
    unsafe {
        let owner = ffi::PyCapsule_GetPointer(capsule, BASE.as_ptr());
        if !owner.is_null() {
            drop(Box::from_raw(owner.cast::<Owner>()));
        }
    }
}
