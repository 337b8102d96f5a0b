//! The errors of this crate.

mod conversion;

use arraybridge_host::cast::CastError;
pub use arraybridge_tensor::error::AllocError;
use arraybridge_tensor::error::Error as TensorError;
pub use conversion::{ConversionError, Failure};

/// Any error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A conversion that cannot be done.
    #[error("cannot convert from {} to {}: {}", .0.source, .0.target, .0.reason)]
    Conversion(Box<ConversionError>),
    /// A value that is not allowed: `ValueError`.
    #[error("{0}")]
    Value(String),
    /// A name that belongs to no framework: `UnknownFrameworkError`.
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
    #[error("the call was interrupted")]
    Interrupted,
    /// An exception that passes through unchanged.
    #[error(transparent)]
    Python(#[from] pyo3::PyErr),
}

impl From<TensorError> for Error {
    fn from(error: TensorError) -> Error {
        match error {
            TensorError::Value(text) => Error::Value(text),
            TensorError::Type(text) => Error::Type(text),
            TensorError::Aliased(text) => Error::Aliased(text),
            TensorError::Memory(error) => Error::Memory(error),
            TensorError::DeviceMemory(text) => Error::DeviceMemory(text),
            TensorError::Cuda(text) => Error::Cuda(text),
        }
    }
}

impl From<CastError> for Error {
    fn from(error: CastError) -> Error {
        TensorError::from(error).into()
    }
}

#[cfg(feature = "cuda")]
impl From<cudarc::driver::DriverError> for Error {
    fn from(error: cudarc::driver::DriverError) -> Error {
        TensorError::from(error).into()
    }
}

/// A result with this crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;
