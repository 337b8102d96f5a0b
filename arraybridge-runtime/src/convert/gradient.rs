//! Arrays that are read where they are although operations on them are recorded for a gradient.

use pyo3::prelude::*;

use super::errors;
use crate::framework::detect;
use crate::framework::endpoints::Endpoints;
use crate::framework::loaded;
use crate::framework::spec::Framework;
use crate::framework::warnings;
use crate::interpreter::error::Result;

/// Warns if operations on an array are recorded for a gradient, for a caller that has read it where it
/// is. `target` is the framework that it was read for.
pub fn warn_if_detached(data: &Bound<'_, PyAny>, target: &'static Framework) -> Result<()> {
    match recorded(data, target)? {
        Some(endpoints) => warnings::gradient_detached(data.py(), endpoints),
        None => Ok(()),
    }
}

/// Warns if operations on an array are recorded for a gradient, which it does not say itself. A conversion
/// warns of an array that does.
pub fn warn_if_watched(data: &Bound<'_, PyAny>, endpoints: Endpoints) -> Result<()> {
    let (py, source) = (data.py(), endpoints.source);
    if source.watched.is_some() && loaded::load(py, source)?.is_watched(data) {
        warnings::gradient_detached(py, endpoints)?;
    }
    Ok(())
}

/// Refuses an array if operations on it are recorded for a gradient, for a Rust function that was to read it.
///
/// # Errors
///
/// `UnsupportedArrayError`.
pub fn expect_no_gradient(data: &Bound<'_, PyAny>, target: &'static Framework) -> Result<()> {
    match recorded(data, target)? {
        Some(endpoints) => Err(errors::ends_a_gradient(endpoints)),
        None => Ok(()),
    }
}

/// Both frameworks, if operations on an array are recorded for a gradient.
fn recorded(data: &Bound<'_, PyAny>, target: &'static Framework) -> Result<Option<Endpoints>> {
    let Some(class) = detect::class_of(data) else { return Ok(None) };
    let (py, source) = (data.py(), class.framework);
    if source.guards.is_empty() && source.watched.is_none() {
        return Ok(None);
    }
    let loaded = loaded::load(py, source)?;
    let is_recorded = loaded.is_recorded(data) == Some(true) || loaded.is_watched(data);
    Ok(is_recorded.then_some(Endpoints { source, target }))
}
