//! Converters by their pair.

use pyo3::prelude::*;

use crate::spec::Framework;

/// What is asked of a conversion.
pub struct Request<'py>(pub Python<'py>);

/// Why a conversion failed.
pub type Error = PyErr;

/// Converts arrays of one framework to another.
pub trait Converter: Send + Sync {
    /// The framework that it converts from.
    fn source(&self) -> &'static Framework;
    /// The framework that it converts to.
    fn target(&self) -> &'static Framework;
    /// Converts an array.
    fn convert<'py>(
        &self,
        data: &Bound<'py, PyAny>,
        request: &Request<'py>,
    ) -> Result<Bound<'py, PyAny>, Error>;
}

/// An entry of the registry.
pub struct Registered(pub &'static dyn Converter);

inventory::collect!(Registered);

/// Converts an array.
pub fn convert<'py>(
    _: &'static Framework,
    _: &'static Framework,
    data: &Bound<'py, PyAny>,
    _: &Request<'py>,
) -> Result<Bound<'py, PyAny>, Error> {
    Ok(data.clone())
}
