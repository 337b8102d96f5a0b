//! The files of tables: the one that this crate carries, and those that `ARRAYBRIDGE_FRAMEWORKS` lists.

use std::ffi::OsStr;
use std::path::Path;
use std::{env, fs};

use crate::problems::Problems;

/// The name, in messages, of the tables that this crate carries.
const EMBEDDED: &str = "frameworks.toml";

/// The environment variable with the files of more tables, separated as in `PATH`.
pub const VARIABLE: &str = "ARRAYBRIDGE_FRAMEWORKS";

/// A file of tables.
pub struct Source {
    /// Its name in messages. A file that [`VARIABLE`] lists has its path.
    pub label: String,
    /// Its text.
    pub text: String,
}

impl Source {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// What to tell an author of tables if it cannot be read.
    pub fn read(label: &str, path: &Path) -> Result<Source, String> {
        let text = fs::read_to_string(path).map_err(|error| {
            format!("{label} cannot be read: {error}; write the path of a file of tables")
        })?;
        // Some editors write a byte order mark.
        let text = text.trim_start_matches('\u{feff}').to_owned();
        Ok(Source { label: label.to_owned(), text })
    }

    /// Returns whether it is the file that this crate carries.
    pub fn is_embedded(&self) -> bool {
        self.label == EMBEDDED
    }

    /// `label:LINE:COLUMN` of a byte offset, both counted from one.
    pub(crate) fn locate(&self, at: usize) -> String {
        let before = self.text.get(..at).unwrap_or(&self.text);
        let line = before.matches('\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let column = before[start..].chars().count() + 1;
        format!("{}:{line}:{column}", self.label)
    }
}

/// The tables that this crate carries.
pub fn embedded() -> Source {
    Source { label: EMBEDDED.into(), text: include_str!("../frameworks.toml").into() }
}

/// The tables of a build: those that this crate carries, and those of the files that [`VARIABLE`] lists.
///
/// # Errors
///
/// The files that cannot be read.
pub fn sources() -> Result<Vec<Source>, Problems> {
    listed(&env::var_os(VARIABLE).unwrap_or_default())
}

fn listed(files: &OsStr) -> Result<Vec<Source>, Problems> {
    let problems = Problems::default();
    let mut sources = vec![embedded()];
    for path in env::split_paths(files).filter(|path| !path.as_os_str().is_empty()) {
        let shown = path.display().to_string();
        let source = if !path.is_absolute() {
            Err(format!("{shown} is a relative path; write an absolute one"))
        } else if sources.iter().any(|source| source.label == shown) {
            Err(format!("{shown} is listed twice; list it once"))
        } else {
            Source::read(&shown, &path)
        };
        match source {
            Ok(source) => sources.push(source),
            Err(message) => problems.add_outside(format_args!("{VARIABLE}: {message}")),
        }
    }
    problems.gate(sources)
}

#[cfg(test)]
mod tests;
