//! The functions that the package's decorators call.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::options::{self, Options};
use super::{Declared, names};
use arraybridge_runtime::framework::spec::Framework;
use arraybridge_runtime::interpreter::error::Result;
use arraybridge_runtime::interpreter::park;

/// Checks the options of a decorator, and returns its framework.
pub fn check_options(
    framework: &Bound<'_, PyAny>,
    options: &Bound<'_, PyDict>,
) -> Result<&'static Framework> {
    park::rather_than_end(framework.py());
    let framework = names::framework(framework)?;
    options::check_public(options)?;
    Options::read(framework, options)?;
    Ok(framework)
}

/// Declares a function with the options of a dictionary. Those of a decorator are public, those of pickle and of
/// functions in Rust need not be.
///
/// # Errors
///
/// The errors of [`Declared::declare`]; [`Error::Type`](arraybridge_runtime::interpreter::error::Error::Type) for an option that is
/// not public.
pub fn declare<'py>(
    function: &Bound<'py, PyAny>,
    execution: &Bound<'py, PyAny>,
    options: &Bound<'py, PyDict>,
    is_public: bool,
) -> Result<Bound<'py, PyAny>> {
    park::rather_than_end(function.py());
    if is_public {
        options::check_public(options)?;
    }
    Declared::declare(function, names::framework(execution)?, options)
}
