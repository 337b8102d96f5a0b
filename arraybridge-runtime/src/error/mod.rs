//! The errors of this crate.

#[cfg(feature = "python")]
mod conversion;

#[cfg(feature = "python")]
pub use conversion::{ConversionError, Failure};

pub use crate::host::buffer::AllocError;
use crate::host::cast::CastError;

/// Any error of this crate. A feature of the crate can add variants.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A conversion that cannot be done.
    #[cfg(feature = "python")]
    #[error("cannot convert from {} to {}: {}", .0.source, .0.target, .0.reason)]
    Conversion(Box<ConversionError>),
    /// A value that is not allowed: `ValueError`.
    #[error("{0}")]
    Value(String),
    /// A name that belongs to no framework: `UnknownFrameworkError`.
    #[cfg(feature = "python")]
    #[error("{reason}")]
    UnknownFramework {
        /// The name.
        name: String,
        /// The reason, and the known names.
        reason: String,
    },
    /// An object of a wrong type: `TypeError`.
    #[error("{0}")]
    Type(String),
    /// An argument that is written to shares memory with another user of it: `AliasedArgumentError`.
    #[error("{0}")]
    Aliased(String),
    /// The host ran out of memory: `MemoryError`.
    #[error(transparent)]
    Memory(#[from] AllocError),
    /// A device ran out of memory: `DeviceMemoryError`.
    #[error("{0}")]
    DeviceMemory(String),
    /// Another failure of CUDA's driver: `RuntimeError`.
    #[error("{0}")]
    Cuda(String),
    /// An [`Interrupt`](crate::prelude::Interrupt) says that the call shall end: the exception that is raised is
    /// that of the signal's handler, such as `KeyboardInterrupt`.
    #[cfg(feature = "python")]
    #[error("the call was interrupted")]
    Interrupted,
    /// An exception that passes through unchanged.
    #[cfg(feature = "python")]
    #[error(transparent)]
    Python(#[from] pyo3::PyErr),
}

impl From<CastError> for Error {
    fn from(error: CastError) -> Error {
        Error::Value(error.to_string())
    }
}

/// A result with this crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;
