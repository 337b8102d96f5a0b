//! The rungs of the ladder, by the names that users write.

use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::interpreter::error::{Error, Result};

/// A way to retry a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rung {
    /// After the caches of every framework were cleared.
    Clear,
    /// After a short wait, and after the caches were cleared once more.
    ClearAgain,
    /// Part by part.
    Split,
    /// In host memory.
    Host,
}

impl Rung {
    /// The rungs that users write, in order.
    pub const ALL: [Rung; 3] = [Rung::Clear, Rung::Split, Rung::Host];

    /// The name that users write, and that records and notes show.
    pub const fn name(self) -> &'static str {
        match self {
            Rung::Clear => "clear",
            Rung::ClearAgain => "second clear",
            Rung::Split => "split",
            Rung::Host => "host",
        }
    }

    /// Reads `on_oom`: one name or several.
    ///
    /// # Errors
    ///
    /// [`Error::Type`] for anything but names, [`Error::Value`] for an unknown name.
    pub fn read(names: &Bound<'_, PyAny>) -> Result<Vec<Rung>> {
        let names: Vec<String> = match names.cast::<PyString>() {
            Ok(name) => vec![name.to_string()],
            Err(_) => names.extract().map_err(|_| {
                Error::Type("on_oom must be a name or a sequence of names".to_owned())
            })?,
        };
        let read = |name: String| {
            Rung::ALL.into_iter().find(|rung| rung.name() == name).ok_or_else(|| {
                let known = Rung::ALL.map(Rung::name).join(", ");
                Error::Value(format!("unknown rung {name:?} in on_oom; known are {known}"))
            })
        };
        names.into_iter().map(read).collect()
    }
}
