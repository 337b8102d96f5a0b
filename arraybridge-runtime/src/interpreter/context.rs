//! Context variables, which the `with` blocks of `arraybridge._blocks` set.

use crate::interpreter::once::Once;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
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
    pub fn get<'py>(&'py self, py: Python<'py>) -> PyResult<&'py Bound<'py, PyAny>> {
        Ok(self.object.try_once(py, || self.create(py))?.bind(py))
    }

    /// Does what [`get`](Self::get) does; on first use, another module's variable is adopted if
    /// `find` succeeds.
    ///
    /// # Errors
    ///
    /// Any exception that Python raises when a variable is created.
    pub fn get_or_adopt<'py>(
        &'py self,
        py: Python<'py>,
        find: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<&'py Bound<'py, PyAny>> {
        let adopt = || find().map(Bound::unbind).or_else(|_| self.create(py));
        Ok(self.object.try_once(py, adopt)?.bind(py))
    }

    fn create(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let default = PyDict::new(py);
        default.set_item("default", py.None())?;
        let class = py.import("contextvars")?.getattr("ContextVar")?;
        class.call((self.name,), Some(&default)).map(Bound::unbind)
    }
}
