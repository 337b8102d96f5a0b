//! In place of the streams, in a build without the feature `cuda`: there are none, so nothing has to be ordered.

use pyo3::prelude::*;

use crate::framework::device::Device;
use crate::framework::loaded::Loaded;
use crate::framework::spec::Framework;

/// A framework's current stream: there is none.
pub struct Current {
    /// Its handle.
    pub handle: usize,
}

/// The current stream of a framework: there is none.
pub fn current(_loaded: Loaded<'_>, _index: usize) -> PyResult<Option<Current>> {
    Ok(None)
}

/// Runs `body`.
pub fn between<T>(
    _loaded: Loaded<'_>,
    _devices: (Device, Device),
    body: impl FnOnce() -> PyResult<T>,
) -> PyResult<T> {
    body()
}

/// Memory of one framework that work of another one may still use.
pub struct Loan<'py> {
    /// The framework that allocated the memory.
    pub lender: &'static Framework,
    /// Keeps the memory alive.
    pub owner: Bound<'py, PyAny>,
}

/// Would give memory back. Without streams, there is nothing to wait for.
pub fn give_back<'py>(
    _borrower: Loaded<'py>,
    _index: usize,
    _loans: impl IntoIterator<Item = Loan<'py>>,
) {
}

/// Would end loans. Without streams, there is nothing to wait for.
pub unsafe fn end_loans<'py>(
    _py: Python<'py>,
    _index: usize,
    _borrower: usize,
    _loans: impl IntoIterator<Item = Loan<'py>>,
) {
}
