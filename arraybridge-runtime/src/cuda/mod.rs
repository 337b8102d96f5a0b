//! CUDA's driver API, the streams that calls run on, and memory that frameworks lend to each other.

pub mod driver;
mod stream;
pub mod streams;
pub mod thread_stream;

pub use stream::Stream;
