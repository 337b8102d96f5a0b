//! Warnings that are given once.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;

use crate::error::{Ends, Result, warning_class};
use crate::generated::MemoryType;

const N: usize = MemoryType::COUNT;

static SHARED: [[AtomicBool; N]; N] = [const { [const { AtomicBool::new(false) }; N] }; N];

/// Says, once per process and pair, that memory of an immutable array is shared with a target
/// whose arrays can be written to.
///
/// # Errors
///
/// The warning itself, where the user's filters turn it into an exception.
pub fn shared_immutable(py: Python<'_>, ends: Ends) -> Result<()> {
    let Ends { source, target } = ends;
    let given = &SHARED[source.memory_type as usize][target.memory_type as usize];
    if given.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    let class = warning_class(py, "SharedImmutableMemoryWarning");
    let text = format!(
        "this {} array shares the memory of an immutable {} array: writing into it changes values \
         that {} takes for constant. Use copy=True for an array that is safe to write to, or \
         copy=False to say that sharing is meant",
        target.title, source.title, source.title
    );
    let text = std::ffi::CString::new(text).unwrap_or_default();
    PyErr::warn(py, &class, &text, 1)?;
    Ok(())
}
