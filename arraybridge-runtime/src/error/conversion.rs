//! Conversions that cannot be done.

use std::borrow::Cow;

use pyo3::PyErr;

use super::Error;

/// The kind of a failed conversion. Each has its own exception class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// `MemoryConversionError`.
    Conversion,
    /// `DeviceUnavailableError`.
    Device,
    /// `InvalidDeviceError`.
    DeviceIndex,
    /// `UnsupportedDtypeError`.
    Dtype,
    /// `UnsupportedArrayError`.
    Array,
    /// `CopyRequiredError`.
    Copy,
    /// `FrameworkNotInstalledError`.
    NotInstalled,
    /// `FrameworkTableError`.
    Table,
    /// `ResultCollapsedError`.
    Collapsed,
}

impl Failure {
    /// The name of its exception class.
    pub const fn class(self) -> &'static str {
        match self {
            Failure::Conversion => "MemoryConversionError",
            Failure::Device => "DeviceUnavailableError",
            Failure::DeviceIndex => "InvalidDeviceError",
            Failure::Dtype => "UnsupportedDtypeError",
            Failure::Array => "UnsupportedArrayError",
            Failure::Copy => "CopyRequiredError",
            Failure::NotInstalled => "FrameworkNotInstalledError",
            Failure::Table => "FrameworkTableError",
            Failure::Collapsed => "ResultCollapsedError",
        }
    }
}

/// A conversion that cannot be done, and the reason.
#[derive(Debug)]
pub struct ConversionError {
    /// The kind of failure.
    pub failure: Failure,
    /// The name of the source framework, or the class of an object that belongs to no framework.
    pub source: Cow<'static, str>,
    /// The name of the target framework.
    pub target: &'static str,
    /// The step that failed, such as `"dlpack"`, `"detect"` or `"device"`.
    pub method: &'static str,
    /// The reason, and what to do about it.
    pub reason: String,
    /// The function and the argument, such as `register(): argument 'mask'`, if it is about one.
    pub place: Option<String>,
    /// The Python exception that caused it.
    pub cause: Option<PyErr>,
}

impl Error {
    /// The same, with the exception behind it.
    #[cold]
    pub fn caused_by(mut self, cause: impl Into<Option<PyErr>>) -> Error {
        if let Error::Conversion(error) = &mut self {
            error.cause = cause.into();
        }
        self
    }

    /// The error, which says where in a call it happened, unless it says so already.
    #[must_use]
    pub fn in_place(mut self, function: &str, place: &str) -> Self {
        if let Error::Conversion(error) = &mut self {
            error.place.get_or_insert_with(|| format!("{function}(): {place}"));
        }
        self
    }

    /// Returns whether the cause is an element type that a framework does not have.
    #[must_use]
    pub fn is_missing_dtype(&self) -> bool {
        matches!(self, Error::Conversion(error) if matches!(error.failure, Failure::Dtype))
    }

    /// Returns whether rounding would have destroyed a result.
    pub fn is_collapsed(&self) -> bool {
        matches!(self, Error::Conversion(error) if matches!(error.failure, Failure::Collapsed))
    }
}
