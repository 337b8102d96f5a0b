//! The device and the stream that a declared function is called on.

use pyo3::prelude::*;

use super::arguments::{self, Slots};
use super::options::Options;
use crate::cuda::{driver, streams};
use crate::framework::device::{self, Device, Placement};
use crate::framework::endpoints::Endpoints;
use crate::framework::loaded::{self, is_loaded};
use crate::framework::spec::{Framework, Memory};

/// Whether a framework can have a device to make current or a stream to enter.
#[inline]
pub fn concern(framework: &Framework) -> bool {
    framework.memory != Memory::Host && framework.device.scope.is_some()
}

/// The device of a call, where there is a choice.
///
/// # Errors
///
/// As `fit`.
pub fn device_of<'py>(
    py: Python<'py>,
    framework: &'static Framework,
    slots: &Slots<'py>,
    options: &Options,
) -> PyResult<Option<Device>> {
    if slots.is_empty() {
        return Ok(None);
    }
    let loaded = loaded::load(py, framework, Endpoints::of(framework)).map_err(PyErr::from)?;
    match arguments::place(py, loaded, options, slots)? {
        Placement::On(device) => Ok(Some(device)),
        _ => Ok(None),
    }
}

/// Runs `body` with the device of a call made current, on this thread's stream of that device.
///
/// Nothing is done for arrays on the host, and no stream is entered for a call with an array that is
/// traced or needs a gradient.
///
/// # Errors
///
/// What `body` gives, what the framework raises, and `RuntimeError` for a failure of CUDA.
pub fn within<'py, T>(
    py: Python<'py>,
    framework: &'static Framework,
    device: Option<Device>,
    slots: &Slots<'py>,
    body: impl FnOnce() -> PyResult<T>,
) -> PyResult<T> {
    let loaded = || loaded::load(py, framework, Endpoints::of(framework)).map_err(PyErr::from);
    let index = match device {
        Some(Device::Accelerator(index)) => index,
        // A function without arrays makes its own, on the current device.
        None if slots.is_empty() && may_stream(py, framework) => {
            match device::current(py, loaded()?) {
                Ok(index) => index,
                // There is no device, which the function will find out itself if it needs one.
                Err(_) => return body(),
            }
        }
        _ => return body(),
    };
    let streamed = || match may_stream(py, framework) && slots.iter().all(|s| s.is_concrete()) {
        true => streams::with_stream(py, index, body),
        false => body(),
    };
    streams::with_device(py, loaded()?, index, streamed)
}

fn may_stream(py: Python<'_>, framework: &Framework) -> bool {
    framework.stream.is_some() && driver::is_present() && is_loaded(py, framework)
}
