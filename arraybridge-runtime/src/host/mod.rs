//! Host memory: buffers, strided copies and exact dtype casts.
//!
//! Nothing here depends on Python. The value of an element does not depend on the size, alignment or
//! position of the array, nor on the number of threads.

use std::sync::OnceLock;
use std::thread::available_parallelism;

pub mod buffer;
mod cache;
pub mod cast;
pub mod copy;
pub mod dtype;
pub mod layout;
pub mod overlap;
mod parallel;
mod walk;

/// The most threads that an operation is split over.
///
/// Copies and casts are limited by memory bandwidth, which a few cores use up: one core moves about 8 to
/// 12 GB/s, and a processor with two memory channels 20 to 50 GB/s. More threads would cost their start, and
/// the cores of whatever else runs, for little. `cargo bench --bench host` shows the gain of each on a
/// given machine.
const MAX_THREADS: usize = 4;

/// The number of threads that a large operation is split over: the available ones, but at most
/// [`MAX_THREADS`].
pub fn threads() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| available_parallelism().map_or(1, |n| n.get().min(MAX_THREADS)))
}
