//! Warnings that Python would not show again: those from the same line, under the same filters, as one that it has shown
//! or ignored.
//!
//! Python decides that too, but only after the text is formatted and the frames of this package are counted, which takes
//! several times as long as sharing an array. CPython notes in the `__warningregistry__` of the caller's module what was
//! shown there. If the note is there after a warning, its place is remembered here, together with the filters. Filters
//! that are replaced or changed are seen; the end of a `catch_warnings` block, after which CPython shows a warning once
//! more, is not.

use std::sync::{Mutex, PoisonError};

use crate::intern;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyString, PyType};

use super::once::Once;

/// The place from which a warning was given, in a frame that runs.
#[derive(PartialEq, Eq, Clone, Copy)]
struct Place {
    /// The address of the code object, which is kept alive.
    code: usize,
    /// The index of its instruction, or its line in the stable interface.
    position: i32,
    /// What tells the warning from others.
    warning: (usize, u64),
}

/// A warning that was shown or ignored, and the filters under which it was.
struct Shown {
    place: Place,
    filters: Py<PyList>,
    items: Vec<Py<PyAny>>,
    _code: Py<PyAny>,
}

const KEPT: usize = 16;

/// The warnings shown last, by a hash of their places.
static SHOWN: Mutex<[Option<Shown>; KEPT]> = Mutex::new([const { None }; KEPT]);

impl Place {
    /// The place of the frame that runs.
    fn current(py: Python<'_>, warning: (usize, u64)) -> Option<(Place, Bound<'_, PyAny>)> {
        // SAFETY: The interpreter is attached. The frame is borrowed from it and lives while it runs, which it does
        // until this function returns, since no Python code is called. `PyFrame_GetCode` never fails, and returns a
        // reference of its own.
        unsafe {
            let frame = ffi::PyEval_GetFrame();
            if frame.is_null() {
                return None;
            }
            let code = Bound::from_owned_ptr(py, ffi::PyFrame_GetCode(frame).cast());
            #[cfg(not(Py_LIMITED_API))]
            let position = ffi::PyFrame_GetLasti(frame);
            #[cfg(Py_LIMITED_API)]
            let position = ffi::PyFrame_GetLineNumber(frame);
            Some((Place { code: code.as_ptr() as usize, position, warning }, code))
        }
    }

    fn index(self) -> usize {
        let mixed =
            (self.code >> 4) ^ self.position as usize ^ self.warning.0 ^ self.warning.1 as usize;
        mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 59 & (KEPT - 1)
    }
}

/// The filters of the process; `None` if the context has filters of its own.
fn filters(py: Python<'_>) -> Option<Bound<'_, PyList>> {
    static NAMESPACE: PyOnceLock<Option<Py<PyDict>>> = PyOnceLock::new();
    let namespace = NAMESPACE.once(py, || {
        let flags = py.import("sys").and_then(|sys| sys.getattr("flags")).ok()?;
        let aware = flags.getattr("context_aware_warnings");
        if aware.is_ok_and(|aware| aware.is_truthy().unwrap_or(true)) {
            return None;
        }
        py.import("warnings").ok().map(|module| module.dict().unbind())
    });
    let filters = namespace.as_ref()?.bind(py).get_item(intern!(py, "filters")).ok()??;
    filters.cast_into_exact().ok()
}

/// Returns whether Python has shown or ignored this warning at the place of the frame that runs, and would not show it
/// now. Two warnings with one name and one key have the same text.
#[inline]
pub fn was_shown(py: Python<'_>, name: &'static str, key: u64) -> bool {
    if cfg!(Py_GIL_DISABLED) {
        return false;
    }
    let Some((place, _code)) = Place::current(py, (name.as_ptr() as usize, key)) else {
        return false;
    };
    let Ok(shown) = SHOWN.try_lock() else { return false };
    let Some(known) = shown[place.index()].as_ref().filter(|known| known.place == place) else {
        return false;
    };
    filters(py).is_some_and(|filters| {
        filters.is(&known.filters)
            && filters.len() == known.items.len()
            && filters.iter().zip(&known.items).all(|(now, then)| now.is(then))
    })
}

/// Returns whether the first filter that applies to a warning ignores it, which Python notes nowhere. A filter is an
/// action, a pattern of the text, a class, a pattern of the module, and a line, as in `warnings.filters`.
fn is_ignored<'py>(
    filters: &Bound<'py, PyList>,
    text: &str,
    class: &Bound<'py, PyAny>,
    globals: &Bound<'py, PyAny>,
    line: &Bound<'py, PyAny>,
) -> PyResult<bool> {
    let module = globals.get_item("__name__")?;
    let text = PyString::new(filters.py(), text).into_any();
    let matches = |pattern: &Bound<'py, PyAny>, value: &Bound<'py, PyAny>| match pattern {
        none if none.is_none() => Ok(true),
        // The interpreter's own filters have plain text.
        exact if exact.is_instance_of::<PyString>() => exact.eq(value),
        pattern => pattern.call_method1("match", (value,))?.is_truthy(),
    };
    let class = class.cast::<PyType>()?;
    for filter in filters {
        let (action, message, category, of_module, of_line): (String, Bound<'_, PyAny>, _, _, i64) =
            filter.extract()?;
        if matches(&message, &text)?
            && class.is_subclass(&category)?
            && matches(&of_module, &module)?
            && (of_line == 0 || line.eq(of_line)?)
        {
            return Ok(action == "ignore");
        }
    }
    Ok(false)
}

/// Remembers a warning that was given for the frame that runs, if Python has noted it as shown, or its filters ignore it.
#[cold]
pub fn remember(
    py: Python<'_>,
    name: &'static str,
    key: u64,
    text: &str,
    class: &Bound<'_, PyAny>,
) {
    let noted = || -> Option<Shown> {
        let filters = filters(py)?;
        let (place, code) = Place::current(py, (name.as_ptr() as usize, key))?;
        let frame = py.import("sys").ok()?.call_method0("_getframe").ok()?;
        let line = frame.getattr(intern!(py, "f_lineno")).ok()?;
        let globals = frame.getattr(intern!(py, "f_globals")).ok()?;
        let noted = || globals.get_item("__warningregistry__")?.get_item((text, class, &line));
        let is_silent = noted().is_ok_and(|noted| noted.is_truthy().unwrap_or(false))
            || is_ignored(&filters, text, class, &globals, &line).ok()?;
        let items = filters.iter().map(Bound::unbind).collect();
        is_silent.then(|| Shown { place, filters: filters.unbind(), items, _code: code.unbind() })
    };
    if let Some(noted) = noted() {
        let index = noted.place.index();
        let mut shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let before = shown[index].replace(noted);
        // What is released may run Python code.
        drop(shown);
        drop(before);
    }
}
