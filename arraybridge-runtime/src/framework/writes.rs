//! Writes to arrays, as far as their framework counts them.

use pyo3::prelude::*;

use super::detect;
use super::loaded;
use super::spec::Framework;
use crate::interpreter::error::attempt;

/// The number of writes to an array, if its framework counts them.
pub fn version(framework: &'static Framework, array: &Bound<'_, PyAny>) -> Option<i64> {
    let py = array.py();
    let op = framework.version?;
    let loaded = attempt(py, loaded::load(py, framework))?;
    attempt(py, op.call(loaded, [array]))?.extract().ok()
}

/// Returns whether an array was written to since it had this version. One that has no version any
/// more counts as written to.
pub fn has_changed(framework: &'static Framework, array: &Bound<'_, PyAny>, before: i64) -> bool {
    version(framework, array).is_none_or(|now| now != before)
}

/// Counts a write to an array that its framework does not see, if it counts its own. Without this, a gradient that
/// needs the values before the write would be computed from those after it.
pub fn count_write(array: &Bound<'_, PyAny>) -> PyResult<()> {
    let class = detect::class_of(array).filter(detect::Class::is_array);
    let op = class.and_then(|class| Some((class.framework, class.framework.count_write?)));
    let Some((framework, op)) = op else { return Ok(()) };
    let loaded = loaded::load(array.py(), framework)?;
    op.call(loaded, [array]).map(drop)
}
