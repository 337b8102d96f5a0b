//! A described block of memory and who keeps it alive.

pub mod buffer;
pub mod cast;
pub mod element;
pub mod numpy_array;
pub mod source;
pub mod view;
