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
//! - `python` (default) is all of the above, with PyO3 and rust-numpy.
//! - Without it, the crate depends on neither and is a library for Rust programs. [`Tensor`] is an
//!   n-dimensional array of any element type: made from an array of `ndarray`, viewed as one, copied, cast
//!   exactly, and exchanged with other Rust crates by DLPack.
//! - `cuda` (default) adds tensors and, with `python`, declared functions in CUDA memory, by cudarc. The driver is
//!   loaded when it is first used. An extension without it works on host arrays, and on those of a device that
//!   their framework copies to the host.
//! - `casts` (default) has the loops of casts, nearly half of the machine code. An extension module without them
//!   calls those of the `arraybridge` package. A program without Python has no casts then.
//! - `half` (default, and part of `casts`) adds `f16` and `bf16` of the crate `half` as element types.
//! - `package` is for the package's own extension module.
//!
//! ```
//! use arraybridge_runtime::prelude::*;
//!
//! let image = Tensor::from(Array2::from_elem((2, 3), 0.5_f32));
//! let (pixels, report) = image.cast_with(DType::Uint8, Scaling::Unit)?;
//! assert_eq!((pixels.view::<u8>()?[[1, 2]], report.clipped), (128, 0));
//! let exported = pixels.into_dlpack()?;
//! # drop(exported);
//! # Ok::<(), Error>(())
//! ```
//!
//! An extension module for host arrays, and a program without Python:
//!
//! ```toml
//! arraybridge-runtime = { version = "0.1", default-features = false, features = ["python"] }
//! arraybridge-runtime = { version = "0.1", default-features = false, features = ["casts"] }
//! ```
//!
//! [`Tensor`]: prelude::Tensor
#![cfg_attr(not(feature = "python"), doc = "[`memory_type`]: #features")]
#![cfg_attr(not(feature = "python"), doc = "[`python::export`]: #features")]
#![cfg_attr(
    not(feature = "package"),
    allow(dead_code, unused_imports, reason = "the package uses them")
)]

#[cfg(feature = "python")]
extern crate self as arraybridge_runtime;

mod claims;
mod cuda;
mod dlpack;
pub mod error;
mod host;
mod memory;
pub mod prelude;
mod process;
mod tensor;

#[cfg(feature = "python")]
mod c_api;
#[cfg(feature = "python")]
mod convert;
#[cfg(all(test, feature = "package"))]
mod corpora;
#[cfg(feature = "package")]
mod declared;
#[cfg(feature = "python")]
mod framework;
#[cfg(feature = "python")]
mod interpreter;
#[cfg(feature = "package")]
mod policy;
#[cfg(feature = "python")]
mod rust_function;
#[cfg(feature = "package")]
mod slices;

#[cfg(feature = "python")]
#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;

#[cfg(feature = "python")]
pub use arraybridge_macros::memory_type;
#[cfg(feature = "cuda")]
pub use cudarc;
pub use dlpark;

#[cfg(doctest)]
#[doc = include_str!("../../docs/how-to/rust-programs.md")]
struct RustPrograms;

#[cfg(all(doctest, feature = "python"))]
#[doc = include_str!("../README.md")]
struct Readme;

/// The function that an extension module calls.
#[cfg(feature = "python")]
pub mod python {
    pub use crate::rust_function::export;
}
