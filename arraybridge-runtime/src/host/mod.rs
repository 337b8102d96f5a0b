//! Host memory: buffers, strided copies and exact dtype casts. Nothing here knows of Python.
//!
//! Results never depend on the size, the alignment or the position of an array, nor on the number
//! of threads: the threads split the work, and every element is computed in the same way.

pub mod buffer;
pub mod cast;
pub mod copy;
pub mod dtype;
pub mod layout;
pub mod overlap;
mod parallel;
mod walk;

/// How many threads a large operation is split over.
pub fn threads() -> usize {
    static THREADS: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *THREADS.get_or_init(|| std::thread::available_parallelism().map_or(1, |n| n.get().min(2)))
}
