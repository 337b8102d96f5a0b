//! Host memory of arrays: buffers, strided copies and exact casts between element types; and the state that a
//! process has once.
//!
//! Nothing here depends on Python. The value of an element does not depend on the size, alignment or
//! position of the array, nor on the number of threads.

pub mod buffer;
mod cache;
pub mod cast;
pub mod copy;
pub mod dtype;
pub mod layout;
pub mod overlap;
pub mod parallel;
pub mod process;
#[cfg(target_arch = "x86_64")]
mod processor;
pub mod vectors;
pub mod walk;
