//! The frameworks of a conversion.

use pyo3::prelude::*;

use crate::framework::endpoints::Endpoints;
use crate::framework::loaded::{self, Loaded};
use crate::framework::spec::Framework;
use crate::interpreter::error::Result;

/// The frameworks of a conversion. That of the source need not be loaded.
#[derive(Clone, Copy)]
pub(super) struct Pair<'py> {
    pub source: &'static Framework,
    pub target: Loaded<'py>,
}

impl<'py> Pair<'py> {
    pub fn of(py: Python<'py>, ends: Endpoints) -> Result<Pair<'py>> {
        Ok(Pair { source: ends.source, target: loaded::load(py, ends.target)? })
    }

    pub fn ends(self) -> Endpoints {
        Endpoints { source: self.source, target: self.target.framework }
    }
}
