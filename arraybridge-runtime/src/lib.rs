//! Converts arrays between NumPy, CuPy, PyTorch, TensorFlow, JAX, pyclesperanto and any other framework
//! in `frameworks.toml`, and declares Rust functions that take the arrays of all of them.
//!
//! - [`memory_type`] is the attribute that declares a function.
//! - [`prelude`] has what the author of a declared function needs.
//! - [`python::export`] adds declared functions to an extension module.
//! - [`error`] has what an [`Error`](error::Error) can hold.
//!
//! Everything else is private. `ARCHITECTURE.md` in the repository describes the rooms of this crate
//! and which of them may use which.
//!
//! # Features
//!
//! - `cuda` (default) adds tensors and declared functions in CUDA memory, by cudarc. The driver is loaded when it is
//!   first used. An extension without it works on host arrays, and on those of a device that their framework copies
//!   to the host.
//! - `casts` (default) has the loops of casts, nearly half of the machine code. An extension module without them
//!   calls those of the `arraybridge` package.
//! - `half` (default, and part of `casts`) adds `f16` and `bf16` of the crate `half` as element types.
//!
//! A Rust program without Python uses `arraybridge-tensor`, whose [`Tensor`](prelude::Tensor) this crate exports too.
//!
//! An extension module for host arrays:
//!
//! ```toml
//! arraybridge-runtime = { version = "0.1", default-features = false }
//! ```

#![allow(
    rustdoc::private_intra_doc_links,
    reason = "the rooms are public for two other crates, and are read as source"
)]

extern crate self as arraybridge_runtime;

pub mod error;
pub mod prelude;

// The rooms, which `arraybridge-declared` and `arraybridge-py` use too. Not for authors of extensions: they change
// without notice.
#[doc(hidden)]
pub mod c_api;
#[doc(hidden)]
pub mod convert;
#[doc(hidden)]
pub mod cuda;
#[doc(hidden)]
pub mod dlpack;
#[doc(hidden)]
pub mod framework;
#[doc(hidden)]
pub mod interpreter;
#[doc(hidden)]
pub mod memory;
#[doc(hidden)]
pub mod rust_function;
#[doc(hidden)]
pub mod tensor;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;

pub use arraybridge_macros::memory_type;
#[cfg(feature = "cuda")]
pub use cudarc;
pub use dlpark;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The function that an extension module calls.
pub mod python {
    pub use crate::rust_function::export;
}

/// Evaluates an expression with a view of a [`Tensor`](prelude::Tensor)'s elements, as that of `arraybridge-tensor`
/// does, with the error of this crate.
#[macro_export]
macro_rules! dispatch {
    ($tensor:expr, $type:ident, |$view:pat_param| $body:expr) => {
        $crate::__private::dispatch_tensor!(@ $crate::prelude::Error, $tensor, $type, $view, $body)
    };
}
