//! Rust functions as native operators of compiled programs.
//!
//! XLA, the compiler of JAX, calls a handler with a *call frame*: C structs that describe the arguments, the results
//! and the attributes. PyTorch calls a kernel with a stack of tensors and numbers, TensorFlow one with a context that has
//! them. An [`Operator`] is a function that
//! reads either of them from a [`Frame`], which checks all of it first; its [`Entry`] has what the compilers call. Errors
//! and panics become those of the compiler. Nothing here knows Python, and nothing is linked: XLA passes the functions
//! that a handler calls, and those of PyTorch are found in the library that the process has loaded.

pub mod entry;
pub mod error;
pub mod frame;
mod library;
pub mod memory;
pub mod number;
pub mod operator;
pub mod tensorflow;
pub mod torch;
pub mod values;
pub mod xla;

pub use arraybridge_host::dtype::DType;
pub use entry::Entry;
pub use error::Error;
pub use frame::Frame;
pub use number::{Number, Origin, length};
pub use operator::Operator;
pub use values::{Results, Returned, View};
