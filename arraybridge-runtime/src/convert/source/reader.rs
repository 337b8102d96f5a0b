//! A framework whose array is read.

use pyo3::prelude::*;

use crate::convert::errors;
use crate::framework::detect::Class;
use crate::framework::device::Device;
use crate::framework::loaded::{self, Loaded};
use crate::framework::spec::Framework;
use crate::interpreter::error::{Error, Result};

/// A framework whose array is read.
#[derive(Clone, Copy)]
pub(in crate::convert) struct Reader<'py> {
    /// The framework.
    pub loaded: Loaded<'py>,
    /// The one that the array is read for.
    pub target: &'static Framework,
}

impl<'py> Reader<'py> {
    /// For an array that is read in Rust.
    pub fn of(data: &Bound<'py, PyAny>, class: &Class) -> Result<Reader<'py>> {
        let loaded = loaded::load(data.py(), class.framework)?;
        Ok(Reader { loaded, target: class.framework })
    }

    pub fn py(self) -> Python<'py> {
        self.loaded.py()
    }

    /// Names why an array cannot be read.
    #[cold]
    pub fn failed(&self, data: &Bound<'_, PyAny>, error: PyErr) -> Error {
        errors::export_failed(self.loaded, data, error)
    }

    /// The device that an array is on.
    #[inline]
    pub fn located(&self, data: &Bound<'py, PyAny>) -> Result<Device> {
        self.loaded.device_of(data).map_err(|error| self.failed(data, error))
    }
}
