//! Values that are made once in a process, for which no thread waits: a child that is forked meanwhile would wait for ever.
//! PyO3's own cells have other threads wait for the one that makes the value.

use std::convert::Infallible;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;

use super::fork;

/// A cell for a value that Python code makes. Threads that make it at the same time get the one that is made first.
/// A fork waits for those that are made.
pub trait Once<T> {
    /// The value, which is made if it is missing.
    #[inline]
    fn once(&self, py: Python<'_>, make: impl FnOnce() -> T) -> &T {
        let Ok(value) = self.try_once(py, || Ok::<_, Infallible>(make()));
        value
    }

    /// The value, which is made if it is missing.
    ///
    /// # Errors
    ///
    /// Those of `make`.
    fn try_once<E>(&self, py: Python<'_>, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E>;
}

impl<T> Once<T> for PyOnceLock<T> {
    #[inline]
    fn try_once<E>(&self, py: Python<'_>, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        if let Some(value) = self.get(py) {
            return Ok(value);
        }
        let made = {
            let _making = fork::making();
            make()?
        };
        // One that another thread has made meanwhile stays.
        let _ = self.set(py, made);
        Ok(self.get(py).expect("it is set"))
    }
}

/// A string of Python's that is made once.
pub struct Interned(&'static str, PyOnceLock<Py<PyString>>);

impl Interned {
    /// The string with this text, which is not made yet.
    pub const fn new(text: &'static str) -> Interned {
        Interned(text, PyOnceLock::new())
    }

    /// The string.
    #[inline]
    pub fn get<'py>(&self, py: Python<'py>) -> &Bound<'py, PyString> {
        self.1.once(py, || PyString::intern(py, self.0).unbind()).bind(py)
    }
}

/// A string of Python's that is made once for each place in the code, as by PyO3's macro of this name.
#[doc(hidden)]
#[macro_export]
macro_rules! intern {
    ($py:expr, $text:expr) => {{
        static INTERNED: $crate::interpreter::once::Interned =
            $crate::interpreter::once::Interned::new($text);
        INTERNED.get($py)
    }};
}
