//! Converts arrays between frameworks.

extern crate self as arraybridge_runtime;

pub mod dtype;
pub mod generated;
pub mod op;
pub mod registry;
pub mod spec;

/// What the expansion of the macros names. Not for use by hand.
#[doc(hidden)]
pub mod __private {
    pub use crate::op;
    pub use crate::registry::{Converter, Error, Registered, Request, convert};
    pub use crate::spec::*;
    pub use {inventory, pyo3};
}
