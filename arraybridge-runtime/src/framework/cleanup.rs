//! Giving cached device memory back.

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

/// Collects garbage, then has every loaded framework give back the memory that it caches on a
/// device, or on all devices. A framework that is not loaded is not imported; without a device there
/// is nothing to do.
///
/// # Errors
///
/// What is no failure of a framework, such as an interrupt; failures are in the answer.
pub fn clear_all(py: Python<'_>, device: Option<usize>) -> Result<Vec<Cleared>> {
    collect_garbage(py)?;
    let mut cleared = Vec::new();
    for framework in MemoryType::ALL.map(MemoryType::framework) {
        clear(py, framework, device, &mut cleared)?;
    }
    Ok(cleared)
}

/// As [`clear_all`], for one framework.
///
/// # Errors
///
/// As [`clear_all`].
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

/// Arrays in cycles, such as those that an exception's traceback holds, hold memory too.
fn collect_garbage(py: Python<'_>) -> PyResult<()> {
    PyModule::import(py, "gc")?.call_method0("collect").map(drop)
}

fn clear(
    py: Python<'_>,
    framework: &'static Framework,
    device: Option<usize>,
    cleared: &mut Vec<Cleared>,
) -> Result<()> {
    if framework.clear.is_empty() || !loaded::is_loaded(py, framework) {
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
            // Clearing allocates nothing that would matter; that memory is out is no news here.
            Err(error) if oom::framework_of(py, &error).is_some() => Some(first_line(py, &error)),
            Err(error) if oom::passes_through(py, &error) => return Err(error.into()),
            Err(error) => Some(first_line(py, &error)),
        };
        cleared.push(Cleared { framework: framework.name, device: index, error });
    }
    Ok(())
}
