//! CUDA's driver, and the streams of this library.

pub mod driver;
mod stream;
pub mod streams;

pub use stream::Stream;
