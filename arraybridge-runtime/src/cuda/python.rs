//! The part of the driver's use that needs Python. `no_python.rs` takes its place in a program
//! without Python.

pub(crate) use crate::interpreter::detached::wait_detached;
pub use crate::interpreter::fork;
