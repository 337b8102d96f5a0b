//! Panics of Rust code as exceptions.

use std::any::Any;
use std::cell::Cell;
use std::panic;
use std::sync::Once;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use super::error::class;

thread_local! {
    /// The place where this thread panicked last, as `src/lib.rs:7:5`.
    static PLACE: Cell<Option<String>> = const { Cell::new(None) };
}

/// Notes from now on where threads panic, beside what was done about panics before.
#[cfg_attr(
    Py_LIMITED_API,
    expect(dead_code, reason = "`vectorcall::install` uses it, which does nothing there")
)]
pub fn note_places() {
    static NOTED: Once = Once::new();
    NOTED.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let _ = PLACE.try_with(|place| place.set(info.location().map(ToString::to_string)));
            before(info);
        }));
    });
}

/// A panic as an exception that names the function and the place: `RustPanicError`, or `RuntimeError` in a program
/// without the `arraybridge` package.
#[cold]
pub fn exception(function: &Bound<'_, PyAny>, panic: &(dyn Any + Send)) -> PyErr {
    let py = function.py();
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    let text = text.unwrap_or_else(|| "without a message".to_owned());
    let name = function.getattr(pyo3::intern!(py, "__qualname__"));
    let name = name.and_then(|name| name.extract::<String>()).unwrap_or_default();
    let place = PLACE.take().map_or(String::new(), |place| format!(" at {place}"));
    let text = format!("{name}() panicked{place}: {text}");
    match class(py, "RustPanicError") {
        Some(class) => PyErr::from_type(class, (text,)),
        None => PyRuntimeError::new_err(text),
    }
}
