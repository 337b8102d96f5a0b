//! [`Tensor`](prelude::Tensor), an n-dimensional array of any element type, on the host or on a CUDA device. It is
//! made from an array of `ndarray`, viewed as one, copied, cast exactly, and exchanged with other Rust crates by
//! DLPack.
//!
//! ```
//! use arraybridge_tensor::prelude::*;
//!
//! let image = Tensor::from(Array2::from_elem((2, 3), 0.5_f32));
//! let (pixels, report) = image.cast_with(DType::Uint8, Scaling::Unit)?;
//! assert_eq!((pixels.view::<u8>()?[[1, 2]], report.clipped), (128, 0));
//! let exported = pixels.into_dlpack()?;
//! # drop(exported);
//! # Ok::<(), Error>(())
//! ```
//!
//! Below it are the parts that `arraybridge-runtime` is built on too: described [`memory`] and its owner, [`claims`]
//! on memory, [`dlpack`]'s structures, and the driver of [`cuda`]. Nothing here knows Python: what an interpreter
//! needs is asked of a [`binding`].
//!
//! # Features
//!
//! - `casts` (default) has the loops of casts. An extension module of Python without it calls those of the
//!   `arraybridge` package.
//! - `half` (part of `casts`) adds `f16` and `bf16` of the crate `half` as element types.
//! - `cuda` adds tensors in CUDA memory, by cudarc. The driver is loaded when it is first used.
//! - `pyo3` makes tensors of Python's objects and objects of tensors, and turns errors into exceptions.

pub mod binding;
pub mod claims;
pub mod cuda;
pub mod dlpack;
pub mod error;
pub mod memory;
pub mod prelude;
#[cfg(feature = "pyo3")]
pub mod python;
pub mod tensor;

#[cfg(feature = "cuda")]
pub use cudarc;
pub use dlpark;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/how-to/rust-programs.md")]
struct RustPrograms;
