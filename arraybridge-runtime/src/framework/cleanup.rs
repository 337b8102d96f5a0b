//! Releasing cached device memory.

use pyo3::prelude::*;
use pyo3::types::PyModule;

use crate::framework::device::{self, Device};
use crate::framework::endpoints::Endpoints;
use crate::framework::generated::MemoryType;
use crate::framework::loaded;
use crate::framework::oom;
use crate::framework::spec::Framework;
use crate::interpreter::error::{Result, first_line};

/// What was done for one framework on one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cleared {
    /// The framework.
    pub framework: &'static str,
    /// The index of its accelerator.
    pub device: usize,
    /// What the framework raised, if it did.
    pub error: Option<String>,
}

/// Collects garbage, then makes every imported framework release the memory that it caches on a
/// device, or on all its devices. No framework is imported for this.
///
/// # Errors
///
/// What is not an `Exception`, such as an interrupt. What a framework raises is in the result.
pub fn clear_all(py: Python<'_>, device: Option<usize>) -> Result<Vec<Cleared>> {
    collect_garbage(py)?;
    let mut cleared = Vec::new();
    for framework in MemoryType::ALL.map(MemoryType::framework) {
        clear(py, framework, device, &mut cleared)?;
    }
    Ok(cleared)
}

/// Does the same as [`clear_all`] for one framework.
///
/// # Errors
///
/// What is not an `Exception`, such as an interrupt. What a framework raises is in the result.
pub fn clear_one(
    py: Python<'_>,
    framework: &'static Framework,
    device: Option<usize>,
) -> Result<Vec<Cleared>> {
    collect_garbage(py)?;
    let mut cleared = Vec::new();
    clear(py, framework, device, &mut cleared)?;
    Ok(cleared)
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
    let loaded = loaded::load(py, framework, Endpoints::of(framework))?;
    let count = loaded.accelerators(py);
    let devices = match device {
        None => 0..count,
        Some(index) if index < count => index..index + 1,
        Some(_) => 0..0,
    };
    for index in devices {
        let ops = |_: Option<&Bound<'_, PyAny>>| {
            framework.clear.iter().try_for_each(|op| op.call(py, [loaded.module(py)]).map(drop))
        };
        let done = device::within(py, loaded, Device::Accelerator(index), ops);
        let error = match done {
            Ok(()) => None,
            // Memory has run out already, so this is a failure like any other.
            Err(error) if oom::framework_of(py, &error).is_some() => Some(first_line(py, &error)),
            Err(error) if oom::passes_through(py, &error) => return Err(error.into()),
            Err(error) => Some(first_line(py, &error)),
        };
        cleared.push(Cleared { framework: framework.name, device: index, error });
    }
    Ok(())
}
