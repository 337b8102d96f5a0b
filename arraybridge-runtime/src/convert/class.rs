//! The class of an array.

use pyo3::prelude::*;

use super::errors;
use crate::framework::detect::{self, Class};
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
