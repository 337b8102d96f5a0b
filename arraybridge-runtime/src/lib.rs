//! Converts arrays between frameworks.

extern crate self as arraybridge_runtime;

pub mod dtype;
pub mod host;
