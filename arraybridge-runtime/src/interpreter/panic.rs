//! Panics of Rust code as exceptions.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Once;

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;

use super::error::class;
use super::interrupt;
pub use arraybridge_macros::memory_errors;

thread_local! {
    /// The place where this thread panicked last, as `src/lib.rs:7:5`.
    static PLACE: Cell<Option<String>> = const { Cell::new(None) };
}

/// Notes from now on where threads panic, beside what was done about panics before.
pub fn note_places() {
    static NOTED: Once = Once::new();
    NOTED.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let _ = PLACE.try_with(|place| place.set(info.location().map(ToString::to_string)));
            if !is_for_memory(info.payload()) {
                before(info);
            }
        }));
    });
}

/// What PyO3 panics with where Python gives it no object: its constructors fail only if memory runs out.
const NO_OBJECT: &str = "PyObject pointer is null";

fn is_for_memory(panic: &(dyn Any + Send)) -> bool {
    panic.downcast_ref() == Some(&NO_OBJECT)
}

/// The `MemoryError` that is behind a panic, if one is. PyO3 has dropped the exception itself.
#[cold]
pub fn memory_error(py: Python<'_>, panic: &(dyn Any + Send)) -> Option<PyErr> {
    is_for_memory(panic).then(|| {
        // SAFETY: the thread is attached. This sets an exception, for which the interpreter keeps memory.
        unsafe { ffi::PyErr_NoMemory() };
        PyErr::fetch(py)
    })
}

/// Calls the body of a function of Python's. If memory runs out for an object of PyO3's, it is a `MemoryError`.
/// `#[memory_errors]` puts it around a function.
///
/// # Errors
///
/// Those of the body, and `MemoryError`.
pub fn caught<T, E: Into<PyErr> + From<PyErr>>(
    body: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    interrupt::forget_memory_error();
    // PyO3 makes the exception of an error later, where nobody catches a panic.
    let made = || body().map_err(|error| Python::attach(|py| raised(py, error.into())));
    catch_unwind(AssertUnwindSafe(made)).map_or_else(
        |panic| match Python::attach(|py| memory_error(py, &*panic)) {
            Some(error) => Err(error.into()),
            None => resume_unwind(panic),
        },
        |result| result.map_err(E::from),
    )
}

/// An error whose exception is made.
#[cold]
pub fn raised(py: Python<'_>, error: PyErr) -> PyErr {
    error.value(py);
    error
}

/// A panic as an exception that names the function and the place: `RustPanicError`, or `RuntimeError` in a program
/// without the `arraybridge` package.
#[cold]
pub fn exception(function: &Bound<'_, PyAny>, panic: &(dyn Any + Send)) -> PyErr {
    let py = function.py();
    if let Some(error) = memory_error(py, panic) {
        return error;
    }
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    let text = text.unwrap_or_else(|| "without a message".to_owned());
    let name = function.getattr(crate::intern!(py, "__qualname__"));
    let name = name.and_then(|name| name.extract::<String>()).unwrap_or_default();
    let place = PLACE.take().map_or(String::new(), |place| format!(" at {place}"));
    let text = format!("{name}() panicked{place}: {text}");
    match class(py, "RustPanicError") {
        Some(class) => PyErr::from_type(class, (text,)),
        None => PyRuntimeError::new_err(text),
    }
}
