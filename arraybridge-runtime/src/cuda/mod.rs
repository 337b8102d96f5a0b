//! CUDA's driver API, the streams that calls run on, and memory that frameworks lend to each other.

#[cfg_attr(not(feature = "cuda"), path = "no_driver.rs")]
pub mod driver;
#[cfg(feature = "cuda")]
#[cfg_attr(not(feature = "python"), path = "no_python.rs")]
mod python;
#[cfg(all(feature = "cuda", feature = "python"))]
mod stream;
#[cfg(feature = "python")]
#[cfg_attr(not(feature = "cuda"), path = "no_streams.rs")]
pub mod streams;
#[cfg(all(feature = "cuda", feature = "python"))]
pub mod thread_stream;

#[cfg(feature = "cuda")]
pub(crate) use python::wait_detached;
#[cfg(all(feature = "cuda", feature = "python"))]
pub use stream::Stream;

#[cfg(feature = "python")]
use crate::process::Lock;

/// The locks of this room. While the first one is held, the contexts are looked up, and an event is dropped.
#[cfg(all(feature = "cuda", feature = "python"))]
pub static LOCKS: &[&dyn Lock] =
    &[&streams::KEPT, &thread_stream::IDLE, &stream::BORROWED, &driver::CONTEXTS, &driver::UNUSED];
#[cfg(all(not(feature = "cuda"), feature = "python"))]
pub static LOCKS: &[&dyn Lock] = &[];
