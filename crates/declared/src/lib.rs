//! Declared functions: a decorator says which framework a function works on, and calls take arrays of any framework.
//!
//! - [`declared`] is the call: its arguments are converted, the function runs on their device, it is tried again when
//!   memory runs out, and its results are given back.
//! - [`policy`] decides the dtype of a result.
//! - [`slices`] takes stacks and images apart, and puts the results together again.
//!
//! Only the package's own extension module links this crate. Functions in Rust are declared with `#[memory_type]` of
//! `arraybridge-runtime`, and are called through the same code.

#![allow(
    rustdoc::private_intra_doc_links,
    reason = "only the package uses this crate, which is read as source"
)]

pub mod declared;
pub mod policy;
pub mod slices;
