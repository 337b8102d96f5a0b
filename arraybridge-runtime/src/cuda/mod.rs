//! The streams that calls run on, and memory that frameworks lend to each other.

#[cfg(feature = "cuda")]
mod stream;
#[cfg_attr(not(feature = "cuda"), path = "no_streams.rs")]
pub mod streams;
#[cfg(feature = "cuda")]
pub mod thread_stream;

use arraybridge_host::process::Lock;
#[cfg(feature = "cuda")]
use arraybridge_tensor::cuda::driver;

#[cfg(feature = "cuda")]
pub use stream::Stream;

/// The locks of this room. While the first one is held, the contexts are looked up, and an event is dropped.
#[cfg(feature = "cuda")]
pub static LOCKS: &[&dyn Lock] =
    &[&streams::KEPT, &thread_stream::IDLE, &stream::BORROWED, &driver::CONTEXTS, &driver::UNUSED];
#[cfg(not(feature = "cuda"))]
pub static LOCKS: &[&dyn Lock] = &[];
