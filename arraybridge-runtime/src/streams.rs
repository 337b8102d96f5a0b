//! The device and the stream that a declared function runs on.

use pyo3::prelude::*;

use crate::declared::Options;
use crate::declared::arguments::{self, Slots};
use crate::device::{self, Device, Placement};
use crate::live;
use crate::spec::{Framework, Memory};

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
    let live = live::live(py, framework, live::ends_of(framework)).map_err(PyErr::from)?;
    match arguments::place(py, live, options, slots)? {
        Placement::On(device) => Ok(Some(device)),
        _ => Ok(None),
    }
}

/// Runs `body` with the device of a call made current.
///
/// # Errors
///
/// What `body` gives, and what the framework raises.
pub fn within<'py, T>(
    py: Python<'py>,
    framework: &'static Framework,
    device: Option<Device>,
    _slots: &Slots<'py>,
    body: impl FnOnce() -> PyResult<T>,
) -> PyResult<T> {
    let Some(there @ Device::Accelerator(index)) = device else { return body() };
    let live = live::live(py, framework, live::ends_of(framework)).map_err(PyErr::from)?;
    if device::current(py, live)? == index {
        return body();
    }
    device::within(py, live, there, |_| body())
}
