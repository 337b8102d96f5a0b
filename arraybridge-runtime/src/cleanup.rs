//! Giving cached device memory back.

use pyo3::prelude::*;
use pyo3::types::PyModule;

use crate::device::{self, Device};
use crate::error::{Result, first_line};
use crate::generated::MemoryType;
use crate::live;
use crate::oom;
use crate::spec::Framework;

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

/// Whether a program has imported the framework, completely.
pub fn is_loaded(py: Python<'_>, framework: &Framework) -> bool {
    let find = || -> PyResult<bool> {
        let modules = py.import("sys")?.getattr("modules")?;
        if !modules.contains(framework.module)? {
            return Ok(false);
        }
        let module = modules.get_item(framework.module)?;
        let starting = module.getattr("__spec__").and_then(|spec| spec.getattr("_initializing"));
        Ok(!module.is_none() && !starting.is_ok_and(|flag| flag.is_truthy().unwrap_or(false)))
    };
    find().unwrap_or(false)
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
    if framework.clear.is_empty() || !is_loaded(py, framework) {
        return Ok(());
    }
    let live = live::live(py, framework, live::ends_of(framework))?;
    let count = live.accelerators(py);
    let devices = match device {
        None => 0..count,
        Some(index) if index < count => index..index + 1,
        Some(_) => 0..0,
    };
    for index in devices {
        let ops = |_: Option<&Bound<'_, PyAny>>| {
            framework.clear.iter().try_for_each(|op| op.call(py, [live.module(py)]).map(drop))
        };
        let done = device::within(py, live, Device::Accelerator(index), ops);
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
