//! Releasing cached device memory.

use pyo3::prelude::*;
use pyo3::types::PyModule;

use crate::framework::device::Device;
use crate::framework::loaded::{self, Loaded};
use crate::framework::oom;
use crate::framework::registry;
use crate::framework::spec::Framework;
use crate::interpreter::error::{Result, attempt, first_line};

/// The work that was done for one framework on one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cleared {
    /// The framework.
    pub framework: &'static str,
    /// The index of its accelerator.
    pub device: usize,
    /// The error that the framework raised, if it did.
    pub error: Option<String>,
}

/// Runs `body`. If the memory of an accelerator ran out, every framework releases what it caches there, and `body`
/// runs once more: free memory in the cache of one framework is none for another.
///
/// # Errors
///
/// Any exception that `body` raises in the end, and what [`clear_all`] raises.
#[inline]
pub fn with_room<T>(
    py: Python<'_>,
    device: Device,
    mut body: impl FnMut() -> PyResult<T>,
) -> PyResult<T> {
    match body() {
        Ok(done) => Ok(done),
        Err(error) => {
            make_room(py, device, error)?;
            body()
        }
    }
}

/// Clears the caches on an accelerator after an error that says that its memory ran out. Any other error is returned.
#[cold]
fn make_room(py: Python<'_>, device: Device, error: PyErr) -> PyResult<()> {
    match device {
        Device::Accelerator(index) if oom::framework_of(py, &error, None).is_some() => {
            drop(error);
            clear_all(py, Some(index))?;
            Ok(())
        }
        _ => Err(error),
    }
}

/// Collects garbage, then makes every imported framework release the memory that it caches on a
/// device, or on all its devices. No framework is imported for this.
///
/// # Errors
///
/// Any exception that is not an `Exception`, such as an interrupt. An exception that a framework
/// raises is in the result.
pub fn clear_all(py: Python<'_>, device: Option<usize>) -> Result<Vec<Cleared>> {
    collect_garbage(py)?;
    clear_pools(py, device)
}

/// Does what [`clear_all`] does, but collects no garbage.
pub fn clear_pools(py: Python<'_>, device: Option<usize>) -> Result<Vec<Cleared>> {
    let mut cleared = Vec::new();
    for framework in registry::all() {
        clear(py, framework, device, &mut cleared)?;
    }
    Ok(cleared)
}

/// Does what `clear_all` does, for some frameworks. If none of them has an accelerator, nothing is
/// done: collecting the garbage of a program that has imported them takes half a second.
///
/// # Errors
///
/// Any exception that is not an `Exception`, such as an interrupt. An exception that a framework
/// raises is in the result.
pub fn clear_accelerators(
    py: Python<'_>,
    frameworks: &[&'static Framework],
    device: Option<usize>,
) -> Result<Vec<Cleared>> {
    let mut cleared = Vec::new();
    if !frameworks.iter().any(|framework| may_have_accelerator(py, framework)) {
        return Ok(cleared);
    }
    collect_garbage(py)?;
    for framework in frameworks {
        clear(py, framework, device, &mut cleared)?;
    }
    Ok(cleared)
}

/// Returns whether a framework is loaded and has an accelerator, as far as that is known: a
/// framework without caches to clear is not asked, since the answer can start its runtime, which
/// reserves memory.
fn may_have_accelerator(py: Python<'_>, framework: &'static Framework) -> bool {
    if !loaded::is_imported(py, framework) {
        return false;
    }
    match framework.clear.is_empty() {
        true => loaded::if_loaded(py, framework).is_some_and(Loaded::has_counted_any),
        false => {
            attempt(py, loaded::load(py, framework)).is_some_and(|loaded| loaded.accelerators() > 0)
        }
    }
}

/// Arrays in reference cycles hold memory too, such as those in the traceback of an exception.
fn collect_garbage(py: Python<'_>) -> PyResult<()> {
    PyModule::import(py, "gc")?.call_method0("collect").map(drop)
}

fn clear(
    py: Python<'_>,
    framework: &'static Framework,
    device: Option<usize>,
    cleared: &mut Vec<Cleared>,
) -> Result<()> {
    if framework.clear.is_empty() || !loaded::is_imported(py, framework) {
        return Ok(());
    }
    let loaded = loaded::load(py, framework)?;
    let count = loaded.accelerators();
    let devices = match device {
        None => 0..count,
        Some(index) if index < count => index..index + 1,
        Some(_) => 0..0,
    };
    for index in devices {
        let ops = |_: Option<&Bound<'_, PyAny>>| {
            framework.clear.iter().try_for_each(|op| op.call(loaded, []).map(drop))
        };
        let done = loaded.within(Device::Accelerator(index), ops);
        let error = match done {
            Ok(()) => None,
            // Memory has run out already, so this is a failure like any other.
            Err(error) if oom::framework_of(py, &error, Some(framework)).is_some() => {
                Some(first_line(py, &error))
            }
            Err(error) if oom::passes_through(py, &error) => return Err(error.into()),
            Err(error) => Some(first_line(py, &error)),
        };
        cleared.push(Cleared { framework: framework.name, device: index, error });
    }
    Ok(())
}
