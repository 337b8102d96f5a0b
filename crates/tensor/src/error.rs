//! The errors of this crate.

pub use arraybridge_host::buffer::AllocError;
use arraybridge_host::cast::CastError;

/// Any error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A value that is not allowed: `ValueError` in Python.
    #[error("{0}")]
    Value(String),
    /// An object of a wrong type: `TypeError` in Python.
    #[error("{0}")]
    Type(String),
    /// Memory that is written to has another user: `AliasedArgumentError` in Python.
    #[error("{0}")]
    Aliased(String),
    /// The host ran out of memory: `MemoryError` in Python.
    #[error(transparent)]
    Memory(#[from] AllocError),
    /// A device ran out of memory: `DeviceMemoryError` in Python.
    #[error("{0}")]
    DeviceMemory(String),
    /// Another failure of CUDA's driver: `RuntimeError` in Python.
    #[error("{0}")]
    Cuda(String),
}

impl From<CastError> for Error {
    fn from(error: CastError) -> Error {
        Error::Value(error.to_string())
    }
}

/// A result with this crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;
