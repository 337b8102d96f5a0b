//! The tables of [arraybridge](https://docs.rs/arraybridge-runtime): everything in which one framework of arrays differs
//! from the others, as TOML.
//!
//! ```toml
//! [numpy]
//! title = "NumPy"
//! classes = ["numpy.ndarray"]
//! memory = "host"
//! dtypes = ["standard"]
//! import = { op = "module.from_dlpack(data)" }
//! ```
//!
//! [`schema`] lists the keys. [`read`] reads tables by that list, and reports all their mistakes at once, each with its
//! place and what to write instead. The values that are expressions of Python are parsed ([`op`]). The macro
//! `frameworks!` generates code from what this crate reads; the Python package finds the same mistakes before it builds.

#![forbid(unsafe_code)]

mod document;
mod json;
mod keywords;
mod names;
pub mod op;
#[cfg(test)]
mod page;
mod problems;
mod read;
mod rules;
pub mod schema;
mod scope;
mod sources;
mod value;

pub use json::keys;
pub use keywords::is_keyword;
pub use problems::{Problems, instead};
pub use sources::{Source, VARIABLE, embedded, sources};
pub use value::{Entries, Framework, Op, Place, Value};

use document::Document;

/// Reads every table of every source, and reports all mistakes at once.
///
/// # Errors
///
/// The mistakes.
pub fn read(sources: &[Source]) -> Result<Vec<Framework>, Problems> {
    let problems = Problems::default();
    let documents: Vec<_> =
        sources.iter().map(|source| Document::parse(source, &problems)).collect();
    let sections = documents.iter().flat_map(|document| document.sections(&problems)).collect();
    let frameworks = read::frameworks(sections);
    problems.gate(frameworks)
}

#[cfg(test)]
mod tests;
