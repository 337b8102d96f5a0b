//! The two endpoints of a conversion, which its errors name.

use pyo3::prelude::*;

use crate::framework::spec::Framework;
use crate::interpreter::error::{ConversionError, Error, Failure};

/// The source and the target of a conversion.
#[derive(Clone, Copy, Debug)]
pub struct Endpoints {
    /// Where the array comes from.
    pub source: &'static Framework,
    /// Where it goes.
    pub target: &'static Framework,
}

impl Endpoints {
    /// One framework at both ends, for an error about an array that is not converted.
    pub fn of(framework: &'static Framework) -> Endpoints {
        Endpoints { source: framework, target: framework }
    }

    /// An error between these endpoints.
    #[cold]
    pub fn error(&self, failure: Failure, method: &'static str, reason: String) -> Error {
        self.caused(failure, method, reason, None)
    }

    /// An error between these endpoints with the exception behind it.
    #[cold]
    pub fn caused(
        &self,
        failure: Failure,
        method: &'static str,
        reason: String,
        cause: Option<PyErr>,
    ) -> Error {
        Error::Conversion(Box::new(ConversionError {
            failure,
            source: self.source.name.into(),
            target: self.target.name,
            method,
            reason,
            place: None,
            cause,
        }))
    }
}
