//! Bars that show how far a call in many steps is.

use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::exceptions::PyTypeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::context::{ContextBlock, ContextVariable};
use super::park;

/// The context variable with the object that makes the bars.
static BARS: ContextVariable = ContextVariable::new("arraybridge.progress");

/// The number of open blocks. A call looks for bars only where there is one.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// Shows how far calls in many steps are: `with progress():`.
///
/// Steps are the slices of `slice_by_slice` and `process_slices`, the tiles of `tiles`, and the elements of
/// a call that is split because memory ran out. Nothing is shown outside of such a block. A bar of tiles that has
/// `set_postfix_str`, as tqdm's has, also shows the bytes of the first array that are done, how many a second,
/// and how long the others take.
///
/// Parameters
/// ----------
/// bar : callable, optional
///     What makes a bar: `tqdm.tqdm`, or another callable that takes its keywords `desc`, `total` and `unit`
///     and whose results have `update(n)` and `close()`. By default tqdm if it is installed, else
///     one line on a terminal.
///
/// Raises
/// ------
/// TypeError
///     If `bar` cannot be called.
/// RuntimeError
///     If one object is entered twice.
///
/// Examples
/// --------
/// >>> import numpy, arraybridge
/// >>> class Count:
/// ...     def __init__(self, desc, total, unit):
/// ...         print(desc, total, unit)
/// ...     def update(self, n):
/// ...         print("one more")
/// ...     def close(self):
/// ...         print("done")
/// >>> @arraybridge.numpy(slice_by_slice=True)
/// ... def brighter(image):
/// ...     return image + 1
/// >>> with arraybridge.progress(Count):
/// ...     brighter(numpy.zeros((2, 3, 3))).shape
/// brighter 2 slice
/// one more
/// one more
/// done
/// (2, 3, 3)
#[pyclass(frozen, module = "arraybridge", name = "progress")]
pub struct ShowProgress {
    bar: Option<Py<PyAny>>,
    block: ContextBlock,
}

#[pymethods]
impl ShowProgress {
    #[new]
    #[pyo3(signature = (bar=None))]
    fn new(bar: Option<Bound<'_, PyAny>>) -> PyResult<ShowProgress> {
        if let Some(bar) = bar.as_ref().filter(|bar| !bar.is_callable()) {
            let class = bar.get_type().name()?;
            let text = format!("bar must be a class or a function like tqdm.tqdm, not {class}");
            return Err(PyTypeError::new_err(text));
        }
        Ok(ShowProgress { bar: bar.map(Bound::unbind), block: ContextBlock::default() })
    }

    fn __enter__(&self, py: Python<'_>) -> PyResult<()> {
        park::rather_than_end(py);
        let make = match &self.bar {
            Some(bar) => bar.bind(py).clone(),
            None => py.import("arraybridge._tools.progress")?.getattr("bar")?,
        };
        self.block.enter(BARS.get(py)?, make)?;
        OPEN.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        let variable = BARS.get(py)?;
        let Some(token) = self.block.leave(py) else { return Ok(()) };
        OPEN.fetch_sub(1, Ordering::Relaxed);
        token.reset(variable)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.bar)
    }
}

/// The bar of one call, if there is one. It is closed when it is dropped.
pub struct Progress<'py>(Option<Bound<'py, PyAny>>);

impl<'py> Progress<'py> {
    /// A bar for so many steps, if the context shows bars.
    ///
    /// # Errors
    ///
    /// Any exception that making the bar raises.
    pub fn start(
        py: Python<'py>,
        name: &str,
        total: usize,
        unit: &'static str,
    ) -> PyResult<Progress<'py>> {
        if OPEN.load(Ordering::Relaxed) == 0 {
            return Ok(Progress(None));
        }
        let make = BARS.get(py)?.call_method0(intern!(py, "get"))?;
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
    ///
    /// # Errors
    ///
    /// Any exception that the bar raises.
    #[inline]
    pub fn step(&self, count: usize) -> PyResult<()> {
        match &self.0 {
            Some(bar) => bar.call_method1(intern!(bar.py(), "update"), (count,)).map(drop),
            None => Ok(()),
        }
    }

    /// Does what [`step`](Self::step) does. A bar that can show text shows the bytes.
    ///
    /// # Errors
    ///
    /// What the bar raises.
    pub fn step_bytes(&self, count: usize, done: usize, total: usize) -> PyResult<()> {
        if let Some(bar) = &self.0 {
            let tools = bar.py().import("arraybridge._tools.progress")?;
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
