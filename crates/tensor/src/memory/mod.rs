//! Described memory and its owner; copies and casts of host memory.

pub mod copy;
pub mod element;
pub mod source;
pub mod view;
