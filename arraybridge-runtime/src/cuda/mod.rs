//! CUDA's driver API, and the streams that calls run on.

pub mod driver;
mod stream;
pub mod streams;

pub use stream::Stream;
