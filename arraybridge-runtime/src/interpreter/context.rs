//! Context variables, and the `with` blocks that set them.
//!
//! A value that such a block sets holds in its own context: its thread, or its asyncio task.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::{MutexExt, PyOnceLock};
use pyo3::types::PyDict;

/// A `contextvars.ContextVar` of this module, whose default is `None`.
pub struct ContextVariable {
    name: &'static str,
    object: PyOnceLock<Py<PyAny>>,
}

impl ContextVariable {
    /// The variable of this name. Errors name the function that makes the blocks by it:
    /// `"arraybridge.trace"`.
    pub const fn new(name: &'static str) -> ContextVariable {
        ContextVariable { name, object: PyOnceLock::new() }
    }

    /// The Python object, created on first use.
    ///
    /// # Errors
    ///
    /// What Python raises.
    pub fn get<'py>(&'py self, py: Python<'py>) -> PyResult<&'py Bound<'py, PyAny>> {
        Ok(self.object.get_or_try_init(py, || self.create(py))?.bind(py))
    }

    /// As [`get`](Self::get); on first use, another module's variable is adopted if `find` succeeds.
    ///
    /// # Errors
    ///
    /// What Python raises when a variable is created.
    pub fn get_or_adopt<'py>(
        &'py self,
        py: Python<'py>,
        find: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<&'py Bound<'py, PyAny>> {
        let adopt = || find().map(Bound::unbind).or_else(|_| self.create(py));
        Ok(self.object.get_or_try_init(py, adopt)?.bind(py))
    }

    fn create(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let default = PyDict::new(py);
        default.set_item("default", py.None())?;
        let class = py.import("contextvars")?.getattr("ContextVar")?;
        class.call((self.name,), Some(&default)).map(Bound::unbind)
    }
}

/// The error of entering a block twice. The function of this name makes another one.
pub fn already_open(name: &str) -> PyErr {
    PyRuntimeError::new_err(format!("this block is already open; make another one with {name}()"))
}

/// A `with` block that sets a context variable. It is entered once at a time.
#[derive(Default)]
pub struct ContextBlock(Mutex<Option<Py<PyAny>>>);

/// What undoes the setting of a context variable.
pub struct Token(Py<PyAny>);

impl ContextBlock {
    /// Sets the variable until the block is [left](Self::leave).
    ///
    /// # Errors
    ///
    /// `RuntimeError` when the block is open.
    pub fn enter<'py>(
        &self,
        variable: &Bound<'py, PyAny>,
        value: impl IntoPyObject<'py>,
    ) -> PyResult<()> {
        let py = variable.py();
        let mut token = self.lock(py);
        if token.is_some() {
            let name: String = variable.getattr(intern!(py, "name"))?.extract()?;
            return Err(already_open(&name));
        }
        *token = Some(variable.call_method1(intern!(py, "set"), (value,))?.unbind());
        Ok(())
    }

    /// Closes the block. `None` if it is not open.
    pub fn leave(&self, py: Python<'_>) -> Option<Token> {
        self.lock(py).take().map(Token)
    }

    fn lock(&self, py: Python<'_>) -> MutexGuard<'_, Option<Py<PyAny>>> {
        self.0.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
    }
}

impl Token {
    /// Gives the variable the value that it had before.
    ///
    /// # Errors
    ///
    /// What Python raises when the block is left in another context than it was entered in.
    pub fn reset(self, variable: &Bound<'_, PyAny>) -> PyResult<()> {
        variable.call_method1(intern!(variable.py(), "reset"), (self.0,)).map(drop)
    }
}
