//! The device and the stream of a call.

use pyo3::prelude::*;

use super::arguments::{self, ArgumentSlots};
use super::options::Options;
use crate::cuda::{driver, streams};
use crate::framework::device::{self, Device, Placement};
use crate::framework::endpoints::Endpoints;
use crate::framework::loaded::{self, is_imported};
use crate::framework::spec::{Framework, Memory};

/// Whether a framework may need a device to be made current or a stream to be entered.
#[inline]
pub fn applies_to(framework: &Framework) -> bool {
    framework.memory != Memory::Host && framework.device.scope.is_some()
}

/// The device of a call, if there is a choice.
///
/// # Errors
///
/// As [`arguments::fit`].
pub fn call_device<'py>(
    py: Python<'py>,
    framework: &'static Framework,
    slots: &ArgumentSlots<'py>,
    options: &Options,
) -> PyResult<Option<Device>> {
    if slots.is_empty() {
        return Ok(None);
    }
    let loaded = loaded::load(py, framework, Endpoints::of(framework)).map_err(PyErr::from)?;
    match arguments::call_placement(py, loaded, options, slots)? {
        Placement::On(device) => Ok(Some(device)),
        _ => Ok(None),
    }
}

/// Runs `body` with the device of a call made current, on this thread's stream of that device.
///
/// For arrays on the host, `body` just runs. No stream is entered if an array is traced or needs a
/// gradient.
///
/// # Errors
///
/// What `body` returns, what the framework raises, and `RuntimeError` for a failure of CUDA.
pub fn enter<'py, T>(
    py: Python<'py>,
    framework: &'static Framework,
    device: Option<Device>,
    slots: &ArgumentSlots<'py>,
    body: impl FnOnce() -> PyResult<T>,
) -> PyResult<T> {
    let loaded = || loaded::load(py, framework, Endpoints::of(framework)).map_err(PyErr::from);
    let index = match device {
        Some(Device::Accelerator(index)) => index,
        // A function without array arguments creates its own arrays on the current device.
        None if slots.is_empty() && may_stream(py, framework) => {
            match device::current(py, loaded()?) {
                Ok(index) => index,
                // There is no device. The function will raise an error itself if it needs one.
                Err(_) => return body(),
            }
        }
        _ => return body(),
    };
    let on_stream = || match may_stream(py, framework) && slots.iter().all(|s| s.is_concrete()) {
        true => streams::with_stream(py, index, body),
        false => body(),
    };
    streams::with_device(py, loaded()?, index, on_stream)
}

fn may_stream(py: Python<'_>, framework: &Framework) -> bool {
    framework.stream.is_some() && driver::is_present() && is_imported(py, framework)
}
