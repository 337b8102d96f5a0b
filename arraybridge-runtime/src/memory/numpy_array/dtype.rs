//! NumPy's dtypes, named as ours.

use std::ffi::c_int;

use numpy::npyffi::{self, NPY_TYPES, PY_ARRAY_API, PyArray_Descr};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::host::dtype::DType;

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

pub(super) fn is_swapped(descr: &PyArray_Descr, dtype: DType) -> bool {
    let foreign = if cfg!(target_endian = "little") { b'>' } else { b'<' };
    descr.fields.byteorder as u8 == foreign && dtype.size() > 1
}

pub(super) fn dtype(py: Python<'_>, descr: &PyArray_Descr) -> Option<DType> {
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

pub(super) fn number(dtype: DType) -> Option<c_int> {
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
pub(super) fn descr<'py>(
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
