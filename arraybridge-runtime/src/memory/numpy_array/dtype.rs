//! NumPy's dtypes and ours.

use std::ffi::{c_char, c_int};

use numpy::npyffi::{self, NPY_TYPES, PY_ARRAY_API, PyArray_Descr, PyArray_Descr_fields};
use numpy::{PyArrayDescr, PyArrayDescrMethods};
use pyo3::prelude::*;
use pyo3::types::PyString;

use arraybridge_host::dtype::DType;

/// The element type of a NumPy dtype in the machine's byte order; `None` for any other object.
pub fn named_by(object: &Bound<'_, PyAny>) -> Option<DType> {
    let object = descr_of(object)?;
    // SAFETY: the object is a dtype, and alive.
    let (dtype, swapped) = known(object.py(), unsafe { &*object.as_dtype_ptr() })?;
    (!swapped).then_some(dtype)
}

/// The object as a NumPy dtype, if it is one.
pub fn descr_of<'a, 'py>(object: &'a Bound<'py, PyAny>) -> Option<&'a Bound<'py, PyArrayDescr>> {
    // rust-numpy asks NumPy for the class.
    if super::class(object.py()).is_null() { None } else { object.cast().ok() }
}

/// The element type of a dtype, if it has a name here, and whether the bytes are in the opposite of the
/// machine's order. (rust-numpy's `dtype()` takes a new reference, which is not needed here.)
#[inline]
pub(super) fn known(py: Python<'_>, descr: &PyArray_Descr) -> Option<(DType, bool)> {
    let opposite = if cfg!(target_endian = "little") { b'>' } else { b'<' };
    let (swapped, number) = (fields(descr).byteorder == opposite as c_char, fields(descr).type_num);
    let dtype = match BY_NUMBER.get(number as usize).copied().flatten() {
        Some(dtype) => dtype,
        None if number < NPY_TYPES::NPY_USERDEF as c_int => return None,
        None => of_ml_dtypes(py, descr)?,
    };
    Some((dtype, swapped && dtype.size() > 1))
}

/// The fields of a dtype's C structure.
#[inline]
fn fields(descr: &PyArray_Descr) -> &PyArray_Descr_fields {
    // SAFETY: a dtype has these fields, and nobody changes them.
    unsafe { &*npyffi::_PyDataType_GET_ITEM_DATA(descr) }
}

/// The element type of a dtype that ml_dtypes registered.
fn of_ml_dtypes(py: Python<'_>, descr: &PyArray_Descr) -> Option<DType> {
    // SAFETY: a dtype's type object is a type, and lives as long as the dtype.
    let class = unsafe { Bound::from_borrowed_ptr(py, fields(descr).typeobj.cast()) };
    let module = class.getattr(crate::intern!(py, "__module__")).ok()?;
    if module.cast::<PyString>().ok()?.to_str().ok()? != "ml_dtypes" {
        return None;
    }
    let name = class.getattr(crate::intern!(py, "__name__")).ok()?;
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

/// The element types by NumPy's type number. The numbers are those of C's types, whose widths depend on the
/// platform.
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

/// NumPy's type number of an element type, if NumPy has the type itself.
fn number(dtype: DType) -> Option<c_int> {
    let number = match dtype {
        DType::Bool => NPY_TYPES::NPY_BOOL,
        DType::Int8 => NPY_TYPES::NPY_BYTE,
        DType::Uint8 => NPY_TYPES::NPY_UBYTE,
        DType::Int16 => NPY_TYPES::NPY_SHORT,
        DType::Uint16 => NPY_TYPES::NPY_USHORT,
        DType::Int32 => NPY_TYPES::NPY_INT,
        DType::Uint32 => NPY_TYPES::NPY_UINT,
        // NumPy calls the platform's `long` int64 where that has eight bytes.
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

/// NumPy's dtype object of an element type that NumPy has itself.
pub(super) fn builtin(py: Python<'_>, dtype: DType) -> Option<Bound<'_, PyArrayDescr>> {
    let number = number(dtype)?;
    // SAFETY: the number is one of NumPy's own, for which NumPy returns a new reference to a dtype.
    unsafe {
        let descr = PY_ARRAY_API.PyArray_DescrFromType(py, number);
        Some(Bound::from_owned_ptr(py, descr.cast()).cast_into_unchecked())
    }
}

/// The dtype object of an element type. `extended` knows those that NumPy does not have itself.
pub(super) fn descr<'py>(
    py: Python<'py>,
    dtype: DType,
    extended: impl FnOnce(DType) -> Option<Bound<'py, PyAny>>,
) -> Option<Bound<'py, PyArrayDescr>> {
    builtin(py, dtype).or_else(|| extended(dtype)?.cast_into().ok())
}
