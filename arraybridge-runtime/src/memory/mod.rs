//! Described memory and its owner; NumPy arrays; copies and casts of host memory.

pub mod buffer;
pub mod cast;
pub mod element;
pub mod numpy_array;
pub mod source;
pub mod view;
