//! Memory of Python's objects: NumPy arrays and the buffer protocol; casts in place.

pub mod buffer;
pub mod cast;
pub mod numpy_array;
