//! Described memory and its owner; NumPy arrays; copies and casts of host memory.

#[cfg(feature = "python")]
pub mod buffer;
#[cfg(feature = "python")]
pub mod cast;
pub mod copy;
pub mod element;
#[cfg(feature = "python")]
pub mod numpy_array;
pub mod source;
pub mod view;
