//! Warnings that are given once.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use pyo3::types::PySet;

use crate::framework::endpoints::Endpoints;
use crate::framework::generated::MemoryType;
use crate::interpreter::error::{Result, warning_class};

const N: usize = MemoryType::COUNT;

/// Which pairs this module has warned of.
type Given = [[AtomicBool; N]; N];

static SHARED: Given = [const { [const { AtomicBool::new(false) }; N] }; N];
static DETACHED: Given = [const { [const { AtomicBool::new(false) }; N] }; N];

/// The name under which the package's module keeps the pairs that any extension module warned of.
const WARNED: &str = "_warned";

/// Puts that set into the package's module.
///
/// # Errors
///
/// What Python raises.
pub fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add(WARNED, PySet::empty(module.py())?)
}

fn is_first(py: Python<'_>, class: &str, ends: Endpoints) -> PyResult<bool> {
    let warned = py.import("arraybridge._core")?.getattr(WARNED)?.cast_into::<PySet>()?;
    let key = (class, ends.source.name, ends.target.name);
    let first = !warned.contains(key)?;
    warned.add(key)?;
    Ok(first)
}

/// Warns once per process and pair.
#[inline]
fn warn_once(
    py: Python<'_>,
    given: &Given,
    ends: Endpoints,
    class: &'static str,
    text: impl FnOnce() -> String,
) -> Result<()> {
    let given = &given[ends.source.memory_type as usize][ends.target.memory_type as usize];
    let given = given.load(Ordering::Relaxed) || given.swap(true, Ordering::Relaxed);
    if given || !is_first(py, class, ends).unwrap_or(true) {
        return Ok(());
    }
    let text = std::ffi::CString::new(text()).unwrap_or_default();
    PyErr::warn(py, &warning_class(py, class), &text, 1)?;
    Ok(())
}

/// Says, once per process and pair, that memory of an immutable array is shared with a target
/// whose arrays can be written to.
///
/// # Errors
///
/// The warning itself, where the user's filters turn it into an exception.
pub fn shared_immutable(py: Python<'_>, ends: Endpoints) -> Result<()> {
    let (source, target) = (ends.source.title, ends.target.title);
    warn_once(py, &SHARED, ends, "SharedImmutableMemoryWarning", || {
        format!(
            "this {target} array shares the memory of an immutable {source} array: writing into it \
             changes values that {source} takes for constant. Use copy=True for an array that is \
             safe to write to, or copy=False to say that sharing is meant"
        )
    })
}

/// Says, once per process and pair, that no gradient flows back through a converted array.
///
/// # Errors
///
/// The warning, if a filter makes it an exception.
pub fn gradient_detached(py: Python<'_>, ends: Endpoints) -> Result<()> {
    let (source, target) = (ends.source.title, ends.target.title);
    warn_once(py, &DETACHED, ends, "GradientDetachedWarning", || {
        format!(
            "this {source} array requires a gradient and was detached to be read as a {target} \
             array: no gradient flows back, and training learns nothing through it. Pass \
             x.detach() if that is intended"
        )
    })
}
