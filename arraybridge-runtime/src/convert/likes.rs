//! Objects of no framework that NumPy can see as arrays: data frames, images, buffers, and whatever has one
//! of the protocols of arrays.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyMemoryView, PyTuple, PyType};

use super::carry_out::convert_object;
use super::errors;
use super::request::Request;
use crate::framework::detect;
use crate::framework::device;
use crate::framework::generated::MemoryType;
use crate::framework::oom;
use crate::framework::spec::Framework;
use crate::interpreter::error::{Error, Result, first_line};
use crate::memory::numpy_array;

/// What a class of no framework has to do with arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Likeness {
    /// Nothing.
    None,
    /// Its objects hand out their memory by DLPack.
    Exporter,
    /// NumPy makes arrays of its objects.
    Seen,
    /// Its objects are computations.
    Lazy,
}

/// The most classes that are remembered. Some programs make classes without end.
const MOST_CLASSES: usize = 1024;

/// The answers, by the address of the class, which an entry keeps alive.
type Known = HashMap<usize, (Likeness, Py<PyType>)>;

static KNOWN: Mutex<Option<Known>> = Mutex::new(None);

/// Whether an object of no framework is like an array.
#[inline]
pub fn is_like_array(data: &Bound<'_, PyAny>) -> bool {
    may_be_like_array(data) && likeness(data) != Likeness::None
}

/// Rules out numbers, strings and None without looking anything up: of the classes that are written in C and
/// not made at run time, only `memoryview` is like an array.
#[inline]
fn may_be_like_array(data: &Bound<'_, PyAny>) -> bool {
    let class = data.get_type_ptr();
    // SAFETY: the thread is attached, and `class` is the type of an object that is alive here.
    let flags = unsafe { ffi::PyType_GetFlags(class) };
    flags & ffi::Py_TPFLAGS_HEAPTYPE != 0 || data.is_exact_instance_of::<PyMemoryView>()
}

#[cold]
fn likeness(data: &Bound<'_, PyAny>) -> Likeness {
    let class = data.get_type();
    let address = class.as_ptr() as usize;
    let lock = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((likeness, _)) = lock().get_or_insert_default().get(&address) {
        return *likeness;
    }
    // Looking at a class can run Python code, so the lock is not held.
    let found = examine(&class);
    let mut dropped = None;
    {
        let mut guard = lock();
        let known = guard.get_or_insert_default();
        if known.len() >= MOST_CLASSES {
            dropped = Some(std::mem::take(known));
        }
        known.insert(address, (found, class.unbind()));
    }
    drop(dropped);
    found
}

fn examine(class: &Bound<'_, PyType>) -> Likeness {
    let py = class.py();
    let mro = class.getattr(pyo3::intern!(py, "__mro__")).ok();
    let bases = mro.and_then(|mro| mro.cast_into::<PyTuple>().ok());
    let names: Vec<_> =
        bases.iter().flatten().filter_map(|base| detect::qualified_name(&base)).collect();
    let is_one_of = |list: &[&str]| names.iter().any(|name| list.contains(&name.as_str()));
    let has = |name| class.hasattr(name).unwrap_or(false);
    // Numbers, and whatever has rules of its own.
    if is_one_of(&["numpy.generic", "builtins.type"]) {
        return Likeness::None;
    }
    if names.iter().any(|name| name.starts_with("dask.")) && has(pyo3::intern!(py, "__array__")) {
        return Likeness::Lazy;
    }
    if has(pyo3::intern!(py, "__dlpack__")) && has(pyo3::intern!(py, "__dlpack_device__")) {
        return Likeness::Exporter;
    }
    let is_seen = has(pyo3::intern!(py, "__array__"))
        || has(pyo3::intern!(py, "__array_interface__"))
        || is_one_of(&["builtins.memoryview", "array.array"]);
    if is_seen { Likeness::Seen } else { Likeness::None }
}

/// A scalar of NumPy as an array, if its dtype is known. Scalars are no arrays unless the caller says so.
#[cold]
pub fn scalar_as_array<'py>(data: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    let py = data.py();
    // No attribute of any other object is read.
    if data.get_type().module().ok()? != "numpy" {
        return None;
    }
    let numpy = py.import(pyo3::intern!(py, "numpy")).ok()?;
    if !data.is_instance(&numpy.getattr(pyo3::intern!(py, "generic")).ok()?).ok()? {
        return None;
    }
    let array = numpy.call_method1(pyo3::intern!(py, "asarray"), (data,)).ok()?;
    has_known_dtype(&array).then_some(array)
}

/// Whether an object is a NumPy array of a dtype that other frameworks may have.
fn has_known_dtype(array: &Bound<'_, PyAny>) -> bool {
    numpy_array::array(array).is_some_and(|array| numpy_array::dtype_of(array).is_some())
}

/// The array that an object of no framework is like: one of NumPy's, or, for memory on a device, one of
/// `target`. `None` if it is not like an array.
///
/// # Errors
///
/// [`Failure::Array`](crate::interpreter::error::Failure::Array) for an object that has to be computed
/// first or does not hold numbers.
#[cold]
pub fn seen_as_array<'py>(
    data: &Bound<'py, PyAny>,
    target: &'static Framework,
) -> Result<Option<Bound<'py, PyAny>>> {
    if !may_be_like_array(data) {
        return Ok(None);
    }
    match likeness(data) {
        Likeness::None => Ok(None),
        Likeness::Lazy => Err(errors::not_seen(data, target, &lazy("compute()"), None)),
        Likeness::Exporter => {
            let place = device::dlpack_device(data);
            let is_on_host = place.is_ok_and(device::is_host);
            let framework = if is_on_host { MemoryType::Numpy.framework() } else { target };
            convert_object(data, framework, &Request::default()).map(Some)
        }
        Likeness::Seen => {
            let chunks = data.getattr_opt(pyo3::intern!(data.py(), "chunks")).ok().flatten();
            let is_xarray = detect::qualified_name(data.get_type().as_any())
                .is_some_and(|name| name.starts_with("xarray."));
            if is_xarray && chunks.is_some_and(|chunks| chunks.is_truthy().unwrap_or(false)) {
                return Err(errors::not_seen(data, target, &lazy("compute()"), None));
            }
            as_numpy(data, target).map(Some)
        }
    }
}

/// An array as it is, and the one that an object of no framework is like.
///
/// # Errors
///
/// [`Failure::Array`](crate::interpreter::error::Failure::Array) for an object that is like an array and
/// has to be computed first or does not hold numbers.
pub fn as_array<'py>(
    data: &Bound<'py, PyAny>,
    target: &'static Framework,
) -> Result<Bound<'py, PyAny>> {
    let seen = match detect::class_of(data) {
        Some(_) => None,
        None => seen_as_array(data, target)?,
    };
    Ok(seen.unwrap_or_else(|| data.clone()))
}

fn lazy(call: &str) -> String {
    format!("it is a computation that has not run; pass .{call}")
}

/// What `numpy.asarray` makes of an object, if that is an array of numbers.
///
/// # Errors
///
/// As [`seen_as_array`].
#[cold]
pub fn as_numpy<'py>(
    data: &Bound<'py, PyAny>,
    target: &'static Framework,
) -> Result<Bound<'py, PyAny>> {
    let py = data.py();
    let array = py
        .import(pyo3::intern!(py, "numpy"))
        .and_then(|numpy| numpy.call_method1(pyo3::intern!(py, "asarray"), (data,)))
        .map_err(|error| match oom::passes_through(py, &error) {
            true => Error::Python(error),
            false => {
                let line = first_line(py, &error);
                let why = format!("NumPy cannot make an array of it ({line})");
                errors::not_seen(data, target, &why, Some(error))
            }
        })?;
    if has_known_dtype(&array) {
        return Ok(array);
    }
    let dtype = array.getattr(pyo3::intern!(py, "dtype"))?;
    let why = format!("NumPy sees it as an array of dtype {dtype}; pass its numbers");
    Err(errors::not_seen(data, target, &why, None))
}
