//! Frameworks and element types by the names that users write.

use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::error::{Error, Result};
use crate::generated::MemoryType;
use crate::spec::{DType, Framework};

/// The framework of a name or of a `MemoryType`.
///
/// # Errors
///
/// [`Error::Value`] for an unknown name, [`Error::Type`] for another object; both list the known
/// names.
pub fn framework(name: &Bound<'_, PyAny>) -> Result<&'static Framework> {
    let known = || MemoryType::ALL.map(MemoryType::name).join(", ");
    let Ok(text) = name.cast::<PyString>() else {
        return Err(Error::Type(format!(
            "a framework is named by a str or a MemoryType ({}), not by {}",
            known(),
            name.get_type().name()?
        )));
    };
    let text = text.to_str()?;
    MemoryType::from_name(text)
        .map(MemoryType::framework)
        .ok_or_else(|| Error::Value(format!("unknown framework {text:?}; known are {}", known())))
}

/// The element type of a name, or of any framework's dtype object: `numpy.uint16`, `torch.uint16`,
/// `tf.uint16`.
///
/// # Errors
///
/// [`Error::Value`] for an unknown name, with the known ones.
pub fn dtype(object: &Bound<'_, PyAny>) -> Result<DType> {
    let name = match object.cast::<PyString>() {
        Ok(name) => name.to_str()?.to_owned(),
        Err(_) => ["name", "__name__"]
            .iter()
            .find_map(|attribute| object.getattr(*attribute).ok()?.extract::<String>().ok())
            .map_or_else(|| object.str().map(|s| s.to_string()), Ok)?,
    };
    let short = name.rsplit('.').next().unwrap_or_default();
    DType::from_name(short).ok_or_else(|| {
        let known: Vec<_> = DType::ALL.iter().map(|dtype| dtype.name()).collect();
        Error::Value(format!("unknown dtype {name:?}; known are {}", known.join(", ")))
    })
}
