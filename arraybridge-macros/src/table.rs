//! From the text of the tables to checked frameworks.

mod export;
mod names;
pub mod ops;
#[cfg(test)]
mod page;
mod raw;
mod read;
mod rules;
pub mod schema;
pub mod value;

use crate::problems::{Problems, Source};
use crate::sources::Sources;
pub use export::json;
use raw::Document;
use value::{Framework, Place};

/// Reads every table of every source and reports all mistakes at once.
pub fn read(sources: &[Source]) -> Result<Vec<Framework>, Problems> {
    let problems = Problems::default();
    let documents: Vec<_> =
        sources.iter().map(|source| Document::parse(source, &problems)).collect();
    let sections = documents.iter().flat_map(|document| document.sections(&problems)).collect();
    let frameworks = read::frameworks(sections);
    problems.gate(frameworks)
}

/// The names of the frameworks and where their arrays live, for macros that take a name.
pub fn known() -> Result<Vec<(String, Place)>, Problems> {
    let sources = Sources::find(proc_macro2::TokenStream::new())?;
    let frameworks = read(&sources.all)?;
    let place = |framework: &Framework| framework.entries.place().unwrap_or(Place::Either);
    Ok(frameworks.into_iter().map(|known| (known.name.clone(), place(&known))).collect())
}

#[cfg(test)]
mod tests;
