//! The class of an array, and the frameworks of a conversion.

use pyo3::prelude::*;

use super::errors;
use crate::framework::detect::{self, Class};
use crate::framework::endpoints::Endpoints;
use crate::framework::loaded::{self, Loaded};
use crate::framework::spec::Framework;
use crate::interpreter::error::Result;

/// The class of an array of any framework.
///
/// # Errors
///
/// `Error::Conversion` if the object belongs to none.
#[inline]
pub fn class_of(data: &Bound<'_, PyAny>) -> Result<Class> {
    detect::class_of(data).ok_or_else(|| errors::not_an_array(data, "any framework"))
}

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
