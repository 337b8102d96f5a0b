//! Tuples, named tuples and lists with new elements, and the slices that index them.

use std::ops::Range;
use std::ptr;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList, PyTuple, PyType};

/// The index `start:stop`. PyO3's own constructor, as of version 0.30, never releases the numbers.
///
/// # Errors
///
/// `MemoryError`.
pub fn slice(py: Python<'_>, Range { start, end }: Range<usize>) -> PyResult<Bound<'_, PyAny>> {
    let (start, stop) = (PyInt::new(py, start), PyInt::new(py, end));
    // SAFETY: the slice gets references of its own to the numbers. The step, null, is `None`.
    unsafe {
        let slice = ffi::PySlice_New(start.as_ptr(), stop.as_ptr(), ptr::null_mut());
        Bound::from_owned_ptr_or_err(py, slice)
    }
}

/// The object as a tuple that can be built from elements: a plain one or a named one.
pub fn plain_tuple<'a, 'py>(value: &'a Bound<'py, PyAny>) -> Option<&'a Bound<'py, PyTuple>> {
    let tuple = value.cast::<PyTuple>().ok()?;
    let known = tuple.is_exact_instance_of::<PyTuple>() || maker(&tuple.get_type()).is_some();
    known.then_some(tuple)
}

/// The callable that builds a named tuple of a class from an iterable: `_make`, or the class itself for those written
/// in C, such as `torch.return_types.max`.
pub fn maker<'py>(class: &Bound<'py, PyType>) -> Option<Bound<'py, PyAny>> {
    let py = class.py();
    let make = class.getattr_opt(crate::intern!(py, "_make")).ok()?;
    make.or_else(|| {
        let structure = class.hasattr(crate::intern!(py, "n_sequence_fields")).unwrap_or(false);
        structure.then(|| class.clone().into_any())
    })
}

/// A list or tuple of the same type as another, with new elements.
pub fn rebuilt<'py>(
    like: &Bound<'py, PyAny>,
    elements: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = like.py();
    let list = |elements| PyList::new(py, elements);
    match like.cast::<PyTuple>() {
        Ok(tuple) => match maker(&tuple.get_type()) {
            Some(make) => make.call1((list(elements)?,)),
            None => Ok(PyTuple::new(py, elements)?.into_any()),
        },
        Err(_) => Ok(list(elements)?.into_any()),
    }
}
