//! Errors as Python exceptions.

use std::ffi::CString;

use pyo3::exceptions::{
    PyAttributeError, PyImportError, PyKeyboardInterrupt, PyMemoryError, PyRuntimeError,
    PyTypeError, PyUserWarning, PyValueError,
};
use pyo3::prelude::*;
use pyo3::types::PyType;

use super::package::Part;
use super::{function_code, interrupt, repeated};
pub use crate::error::{ConversionError, Error, Failure, Result};

/// An object in a message, by its repr.
pub fn shown(object: &Bound<'_, PyAny>) -> String {
    object.repr().map(|text| text.to_string()).unwrap_or_default()
}

/// An exception's class and the first line of its message. Frameworks append C++ stack traces. After an attribute that
/// is not there comes where a table names it.
pub fn first_line(py: Python<'_>, error: &PyErr) -> String {
    let text = error.value(py).to_string();
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let name = error.get_type(py).name().map(|n| n.to_string()).unwrap_or_default();
    let line = if line.is_empty() { name } else { format!("{name}: {line}") };
    if !error.is_instance_of::<PyAttributeError>(py) {
        return line;
    }
    let missing = || -> PyResult<String> {
        let tables = Part::Tables.get(py)?;
        tables.call_method1(crate::intern!(py, "missing"), (error.value(py),))?.extract()
    };
    match attempt(py, missing()) {
        Some(place) if !place.is_empty() => format!("{line}; {place}"),
        _ => line,
    }
}

/// Adds a note to an exception that does not have it yet: a program may raise one object again and again.
pub fn add_note(py: Python<'_>, error: &PyErr, note: &str) -> PyResult<()> {
    let notes = error.value(py).getattr_opt(crate::intern!(py, "__notes__"))?;
    match notes {
        Some(notes) if notes.contains(note)? => Ok(()),
        _ => error.add_note(py, note),
    }
}

/// The value of an attempt that may fail. Its exception is dropped, except that an interrupt is raised again later.
pub fn attempt<T>(py: Python<'_>, result: std::result::Result<T, impl Into<PyErr>>) -> Option<T> {
    result.map_err(|error| interrupt::defer(py, error.into())).ok()
}

/// An exception or warning class of the `arraybridge` package. They are defined in Python, so that every extension module raises the same classes. A program that embeds
/// Python without the package gets built-in classes.
pub(super) fn class<'py>(py: Python<'py>, name: &'static str) -> Option<Bound<'py, PyType>> {
    let classes = attempt(py, Part::Exceptions.get(py))?;
    attempt(py, classes.getattr(name))?.cast_into::<PyType>().ok()
}

/// The class of [`Error::DeviceMemory`].
const DEVICE_MEMORY: &str = "DeviceMemoryError";

/// Returns whether an exception says that a device ran out of memory.
pub fn is_device_memory(py: Python<'_>, error: &PyErr) -> bool {
    class(py, DEVICE_MEMORY).is_some_and(|class| error.is_instance(py, &class))
}

/// Gives a warning of one of the package's classes, such as `SharedImmutableMemoryWarning`.
pub fn warn(py: Python<'_>, name: &'static str, text: String) -> PyResult<()> {
    warn_at(py, name, text, function_code::stack_level(py)).map(drop)
}

/// Gives a warning that may be given often. The key stands for its text, which is not made where Python would not show
/// it again.
#[inline]
pub fn warn_often(
    py: Python<'_>,
    name: &'static str,
    key: u64,
    text: impl FnOnce() -> String,
) -> PyResult<()> {
    if repeated::was_shown(py, name, key) {
        return Ok(());
    }
    let (level, text) = (function_code::stack_level(py), text());
    let class = warn_at(py, name, text.clone(), level)?;
    // The frame that runs is the caller's.
    if level == 1 {
        repeated::remember(py, name, key, &text, &class);
    }
    Ok(())
}

fn warn_at<'py>(
    py: Python<'py>,
    name: &'static str,
    text: String,
    level: i32,
) -> PyResult<Bound<'py, PyAny>> {
    let class = class(py, name).unwrap_or_else(|| py.get_type::<PyUserWarning>()).into_any();
    let text = CString::new(text).unwrap_or_default();
    PyErr::warn(py, &class, &text, level)?;
    Ok(class)
}

impl From<Error> for PyErr {
    fn from(error: Error) -> PyErr {
        // Threads that must not wait for the interpreter poll for interrupts too.
        if matches!(error, Error::Interrupted) {
            return interrupted();
        }
        Python::attach(|py| {
            let is_ours = !matches!(error, Error::Python(_));
            // A deferred interrupt may be the reason for an error of ours.
            let interrupt = if is_ours { interrupt::deferred(py) } else { None };
            interrupt.unwrap_or_else(|| exception(py, error))
        })
    }
}

/// The exception of a call that was told to end by a token that no call made.
fn interrupted() -> PyErr {
    PyKeyboardInterrupt::new_err("the call was interrupted")
}

/// The exception for an error.
fn exception(py: Python<'_>, error: Error) -> PyErr {
    match error {
        Error::Python(error) => error,
        Error::Value(text) => PyValueError::new_err(text),
        Error::UnknownFramework { name, reason } => match class(py, "UnknownFrameworkError") {
            Some(class) => PyErr::from_type(class, (name.clone(), name, "name", reason)),
            None => PyValueError::new_err(reason),
        },
        Error::Type(text) => PyTypeError::new_err(text),
        Error::Aliased(text) => match class(py, "AliasedArgumentError") {
            Some(class) => PyErr::from_type(class, (text,)),
            None => PyValueError::new_err(text),
        },
        Error::Memory(error) => PyMemoryError::new_err(error.to_string()),
        Error::DeviceMemory(text) => match class(py, DEVICE_MEMORY) {
            Some(class) => PyErr::from_type(class, (text,)),
            None => PyMemoryError::new_err(text),
        },
        Error::Cuda(text) => PyRuntimeError::new_err(text),
        Error::Interrupted => interrupted(),
        Error::Conversion(error) => conversion_error(py, *error),
    }
}

fn conversion_error(py: Python<'_>, error: ConversionError) -> PyErr {
    let ConversionError { failure, source, target, method, reason, place, cause } = error;
    let before = place.as_ref().map_or(String::new(), |place| format!("{place}: "));
    let text = || format!("{before}cannot convert from {source} to {target}: {reason}");
    let raised = match (class(py, failure.class()), failure) {
        (Some(class), _) => match place {
            None => PyErr::from_type(class, (source, target, method, reason)),
            Some(place) => PyErr::from_type(class, (source, target, method, reason, place)),
        },
        (None, Failure::NotInstalled) => PyImportError::new_err(text()),
        (None, _) => PyRuntimeError::new_err(text()),
    };
    raised.set_cause(py, cause);
    raised
}
