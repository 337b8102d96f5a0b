//! From the text of the tables to checked frameworks.

mod raw;
pub mod spec;
mod validate;

use crate::problems::{Problems, Source};
use crate::sources::Sources;
use raw::Document;
use spec::{Framework, Place};

/// Reads every table of every source and reports all mistakes at once.
pub fn read(sources: &[Source]) -> Result<Vec<Framework>, Problems> {
    let problems = Problems::default();
    let documents: Vec<_> =
        sources.iter().map(|source| Document::parse(source, &problems)).collect();
    let sections = documents.iter().flat_map(|document| document.sections(&problems)).collect();
    let frameworks = validate::frameworks(sections);
    problems.gate(frameworks)
}

/// The names of the frameworks and where their arrays live, for macros that take a name.
pub fn known() -> Result<Vec<(String, Place)>, Problems> {
    let sources = Sources::find(proc_macro2::TokenStream::new())?;
    let frameworks = read(&sources.all)?;
    let known = frameworks.into_iter();
    Ok(known.map(|framework| (framework.identity.name, framework.memory.place())).collect())
}

#[cfg(test)]
mod tests;
