//! The tables of this process: those of the build, and those that are loaded while the program runs. All are read and
//! checked together.

use std::sync::{Mutex, MutexGuard, PoisonError};

use arraybridge_table::Source;

use super::load::{framework, of_build};
use super::spec::Framework;
use super::{detect, registry};
use crate::interpreter::fork;

/// The files of tables of this process: those of the build, and those that were loaded.
static SOURCES: Mutex<Vec<Source>> = Mutex::new(Vec::new());

/// The same, with those of the build.
fn known() -> MutexGuard<'static, Vec<Source>> {
    let mut sources = SOURCES.lock().unwrap_or_else(PoisonError::into_inner);
    if sources.is_empty() {
        *sources = of_build();
    }
    sources
}

/// What is asked of each file of tables that this process knows.
pub fn sources<T>(ask: impl Fn(&Source) -> T) -> Vec<T> {
    let _making = fork::making();
    known().iter().map(ask).collect()
}

/// Loads the tables in a text. `label` is its name in messages. Nothing is imported. Text that is loaded already, under
/// any name, is not loaded again.
///
/// # Errors
///
/// All mistakes in it, each with its place. Those of names and classes that another table has name both.
pub fn load(label: &str, text: &str) -> Result<Vec<&'static Framework>, Vec<String>> {
    let _making = fork::making();
    let mut sources = known();
    if sources.iter().any(|source| source.text == text) {
        return Ok(Vec::new());
    }
    let mut source = Source { label: label.to_owned(), text: text.to_owned() };
    if source.is_embedded() {
        source.label.insert_str(0, "./");
    }
    sources.push(source);
    let read = arraybridge_table::read(&sources);
    let tables = read.map_err(|problems| problems.messages()).and_then(|tables| {
        let new: Vec<_> = tables.into_iter().skip(registry::all().count()).collect();
        let Some(places) = registry::places(new.len()) else {
            let message = format!("{label}: a process loads {} tables at most", registry::SPARE);
            return Err(vec![message]);
        };
        Ok(places.zip(new).map(|(place, table)| framework(place, table)).collect::<Vec<_>>())
    });
    match &tables {
        Ok(found) => {
            registry::add(found);
            detect::forget();
        }
        Err(_) => drop(sources.pop()),
    }
    tables
}

#[cfg(test)]
mod tests;
