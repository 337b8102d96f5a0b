//! Frameworks and dtypes by the names that users write.

use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::framework::generated::MemoryType;
use crate::framework::spec::Framework;
use crate::interpreter::error::{Error, Result};

pub use crate::policy::dtype_named as dtype;

/// The framework that a name or a `MemoryType` stands for.
///
/// # Errors
///
/// [`Error::Value`] for an unknown name, [`Error::Type`] for another object; both list the known
/// names.
pub fn framework(name: &Bound<'_, PyAny>) -> Result<&'static Framework> {
    let known = || MemoryType::ALL.map(MemoryType::name).join(", ");
    let Ok(text) = name.cast::<PyString>() else {
        return Err(Error::Type(format!(
            "a memory type must be a str or a MemoryType ({}), not {}",
            known(),
            name.get_type().name()?
        )));
    };
    let text = text.to_str()?;
    MemoryType::from_name(text)
        .map(MemoryType::framework)
        .ok_or_else(|| Error::Value(format!("Unknown memory type {text:?}; known are {}", known())))
}
