//! Host memory: buffers, strided copies and exact dtype casts. Nothing here knows of Python.
//!
//! Results never depend on the size, the alignment or the position of an array, nor on the number
//! of threads: the threads split the work, and every element is computed in the same way.

pub mod buffer;
pub mod cast;
pub mod copy;
pub mod layout;
mod parallel;
mod walk;
