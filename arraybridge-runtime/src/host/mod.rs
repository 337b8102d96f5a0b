//! Host memory: buffers, strided copies and exact dtype casts.
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
#[cfg(target_arch = "x86_64")]
mod processor;
pub mod vectors;
pub mod walk;
