//! Bars that show how far a call in many steps is. The package has the context variable.

use crate::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use super::package::Part;

/// The bar of one call, if there is one. It is closed when it is dropped.
pub struct Progress<'py>(Option<Bound<'py, PyAny>>);

impl<'py> Progress<'py> {
    /// A bar for so many steps, if the context shows bars.
    pub fn start(
        py: Python<'py>,
        name: &str,
        total: usize,
        unit: &'static str,
    ) -> PyResult<Progress<'py>> {
        static BARS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let bars = Part::Blocks.attribute(py, &BARS, "_BARS")?;
        let make = bars.call_method0(intern!(py, "get"))?;
        if make.is_none() {
            return Ok(Progress(None));
        }
        let keywords = PyDict::new(py);
        keywords.set_item(intern!(py, "desc"), name)?;
        keywords.set_item(intern!(py, "total"), total)?;
        keywords.set_item(intern!(py, "unit"), unit)?;
        Ok(Progress(Some(make.call((), Some(&keywords))?)))
    }

    /// Says that so many more steps are done.
    #[inline]
    pub fn step(&self, count: usize) -> PyResult<()> {
        match &self.0 {
            Some(bar) => bar.call_method1(intern!(bar.py(), "update"), (count,)).map(drop),
            None => Ok(()),
        }
    }

    /// Does what [`step`](Self::step) does. A bar that can show text shows the bytes.
    pub fn step_bytes(&self, count: usize, done: usize, total: usize) -> PyResult<()> {
        if let Some(bar) = &self.0 {
            let tools = Part::Progress.get(bar.py())?;
            tools.call_method1("show_bytes", (bar, done, total))?;
        }
        self.step(count)
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        if let Some(bar) = self.0.take()
            && let Err(error) = bar.call_method0(intern!(bar.py(), "close"))
        {
            // The result of the call matters more than its bar.
            error.write_unraisable(bar.py(), Some(&bar));
        }
    }
}
