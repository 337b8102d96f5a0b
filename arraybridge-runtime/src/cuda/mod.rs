//! CUDA's driver API, the streams that calls run on, and memory that frameworks lend to each other.

pub mod driver;
mod stream;
pub mod streams;
pub mod thread_stream;

pub use stream::Stream;

use crate::process::Lock;

/// The locks of this room. While the first one is held, the contexts are looked up, and an event is dropped.
pub static LOCKS: [&dyn Lock; 5] =
    [&streams::KEPT, &thread_stream::IDLE, &driver::BORROWED, &driver::CONTEXTS, &driver::UNUSED];
