//! Objects with an array inside, such as labelled arrays. The package knows their classes.

use crate::interpreter::package::Part;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::interpreter::error::{Result, attempt};

/// Returns whether the package knows how to take the objects of a class apart. Without the package nothing is known.
#[cold]
pub(super) fn is_registered(class: &Bound<'_, PyType>) -> bool {
    let py = class.py();
    let ask = || Part::Wrappers.get(py)?.call_method1("_is_registered", (class,));
    attempt(py, ask().and_then(|answer| answer.is_truthy())).unwrap_or(false)
}

/// The name of a registered class, and the array inside one of its objects, of whatever framework. `None` instead of an
/// array where NumPy has to see the object itself.
#[cold]
pub(super) fn opened<'py>(data: &Bound<'py, PyAny>) -> Result<Option<NameAndArray<'py>>> {
    Ok(Part::Wrappers
        .get(data.py())?
        .call_method1(intern!(data.py(), "_opened"), (data,))?
        .extract()?)
}

/// The name of a class, and the array inside one of its objects.
pub(super) type NameAndArray<'py> = (String, Option<Bound<'py, PyAny>>);
