//! Converts arrays between NumPy, CuPy, PyTorch, TensorFlow, JAX, pyclesperanto and any other framework
//! in `frameworks.toml`, and declares Rust functions that take the arrays of all of them.
//!
//! - [`memory_type`] is the attribute that declares a function.
//! - [`prelude`] has what the author of a declared function needs.
//! - [`python::export`] adds declared functions to an extension module.
//!
//! Everything else is private. `ARCHITECTURE.md` in the repository describes the rooms of this crate
//! and which of them may use which.

extern crate self as arraybridge_runtime;

mod c_api;
mod claims;
mod convert;
#[cfg(test)]
mod corpora;
mod cuda;
mod declared;
mod dlpack;
mod framework;
mod host;
mod interpreter;
mod memory;
mod policy;
pub mod prelude;
mod rust_function;
mod slices;
mod tensor;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;

pub use arraybridge_macros::memory_type;
pub use cudarc;

/// What an extension module calls.
pub mod python {
    pub use crate::rust_function::export;
}
