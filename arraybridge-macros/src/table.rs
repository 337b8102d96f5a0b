//! From the text of the tables to frameworks that cannot be wrong.

mod raw;
pub mod spec;
mod validate;

use crate::problems::{Problems, Source};
use raw::Document;
use spec::Framework;

/// Reads every table of every source and reports all mistakes at once.
pub fn read(sources: &[Source]) -> Result<Vec<Framework>, Problems> {
    let problems = Problems::default();
    let documents: Vec<_> =
        sources.iter().map(|source| Document::parse(source, &problems)).collect();
    let sections = documents.iter().flat_map(|document| document.sections(&problems)).collect();
    let frameworks = validate::frameworks(sections);
    problems.gate(Some(frameworks))
}
