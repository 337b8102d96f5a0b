//! Objects with a shape, a dtype and `__getitem__`, of which parts are read. The package knows them.

use arraybridge_runtime::intern;
use pyo3::prelude::*;

use arraybridge_runtime::framework::detect;
use arraybridge_runtime::interpreter::error::Result;
use arraybridge_runtime::interpreter::package::Part;

/// The part of the package that knows these objects.
pub fn part(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    Part::Lazy.get(py)
}

/// Returns whether two objects are the same, or the same array in a file.
pub fn is_same(one: &Bound<'_, PyAny>, other: &Bound<'_, PyAny>) -> Result<bool> {
    Ok(part(one.py())?.call_method1("is_same", (one, other))?.extract()?)
}

/// An array of NumPy's with the shape and the dtype of an object that can be read part by part, but without its values;
/// `None` for any other object, and for an array of a framework.
pub fn stand_in<'py>(object: &Bound<'py, PyAny>) -> Result<Option<Bound<'py, PyAny>>> {
    if detect::class_of(object).is_some() {
        return Ok(None);
    }
    let found = part(object.py())?.call_method1("stand_in", (object,))?;
    Ok(Some(found).filter(|found| !found.is_none()))
}

/// A part of such an object, as an array of NumPy's.
pub fn read<'py>(
    object: &Bound<'py, PyAny>,
    index: &Bound<'py, PyAny>,
) -> Result<Bound<'py, PyAny>> {
    Ok(part(object.py())?.call_method1(intern!(object.py(), "read"), (object, index))?)
}

/// Such an object, or one that keeps the chunks which tiles share. `cuts` are the axis, the length and the halo of the
/// tiles along each axis that is cut.
pub fn banded<'py>(
    object: &Bound<'py, PyAny>,
    cuts: Vec<(usize, usize, usize)>,
) -> Result<Bound<'py, PyAny>> {
    Ok(part(object.py())?.call_method1("banded", (object, cuts))?)
}

/// How many positions along the first axis of such an object are read at a time.
pub fn rows(object: &Bound<'_, PyAny>) -> Result<usize> {
    Ok(part(object.py())?.call_method1("rows", (object,))?.extract()?)
}

/// An array with more elements before and after those that it has along each axis.
pub fn padded<'py>(
    array: &Bound<'py, PyAny>,
    widths: Vec<(usize, usize)>,
    mode: &str,
) -> Result<Bound<'py, PyAny>> {
    Ok(part(array.py())?.call_method1("padded", (array, widths, mode))?)
}

/// The lengths of the tiles that follow the chunks of an array that is written to or read.
///
/// # Errors
///
/// `ValueError` when neither has chunks.
pub fn chunks<'py>(
    read: &Bound<'py, PyAny>,
    out: Option<&Bound<'py, PyAny>>,
) -> Result<Vec<usize>> {
    Ok(part(read.py())?.call_method1("chunks", (read, out))?.extract()?)
}
