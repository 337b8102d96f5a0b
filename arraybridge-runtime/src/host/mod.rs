//! Host memory: buffers, strided copies and exact dtype casts.
//!
//! Nothing here depends on Python. The value of an element does not depend on the size, alignment or
//! position of the array, nor on the number of threads.

use std::sync::atomic::{AtomicUsize, Ordering};
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
///
/// Threads that ask for the first time at once each find out. If one waited for another, a process that is
/// forked meanwhile would wait for a thread that it does not have.
pub fn threads() -> usize {
    static KNOWN: AtomicUsize = AtomicUsize::new(0);
    match KNOWN.load(Ordering::Relaxed) {
        0 => {
            let threads = available_parallelism().map_or(1, |n| n.get().min(MAX_THREADS));
            KNOWN.store(threads, Ordering::Relaxed);
            threads
        }
        known => known,
    }
}
