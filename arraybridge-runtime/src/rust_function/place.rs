//! The places of a call and its arguments.

use dlpark::ffi::DLDevice;
use pyo3::prelude::*;

use super::{RustCall, Setting};
use crate::framework::detect;
use crate::framework::device::{self, Device};
use crate::framework::loaded;
use crate::framework::spec::Memory;
use crate::interpreter::error::Result;

impl RustCall<'_, '_> {
    /// The device of the call: the declared one, else the device of the first array in CUDA memory,
    /// else the declared framework's current device, else the host.
    ///
    /// # Errors
    ///
    /// [`Failure::NotInstalled`], or what the framework raises.
    pub fn device(&self) -> Result<Device> {
        if let Some(device) = self.known_device() {
            return Ok(device);
        }
        let (py, framework) = (self.py, self.framework());
        let loaded = loaded::load(py, framework)?;
        match loaded.accelerators() {
            0 => Ok(Device::Host),
            _ => Ok(Device::Accelerator(loaded.current_device()?)),
        }
    }

    /// The declared device, else the device of the first array in CUDA memory.
    pub(super) fn known_device(&self) -> Option<Device> {
        let declared = self.function.entry.settings.iter().find_map(|setting| match setting {
            ("device", Setting::Name(name)) => Device::from_name(name),
            _ => None,
        });
        let of_array = || self.arrays().find_map(|array| in_cuda(&array)).map(Device::Accelerator);
        declared.or_else(of_array)
    }
}

/// The CUDA device that an object's memory is on, if it is an array there.
pub(super) fn in_cuda(object: &Bound<'_, PyAny>) -> Option<usize> {
    let place = dlpack_device_of(object)?;
    device::is_cuda(place).then_some(place.device_id as usize)
}

/// Returns whether an object is certainly an array in host memory.
#[cfg(feature = "cuda")]
pub(super) fn on_host(object: &Bound<'_, PyAny>) -> bool {
    dlpack_device_of(object).is_some_and(device::is_host)
}

/// The device that an object names for its memory.
fn dlpack_device_of(object: &Bound<'_, PyAny>) -> Option<DLDevice> {
    if detect::class_of(object).is_some_and(|class| class.framework.memory == Memory::Host) {
        return Some(DLDevice::CPU);
    }
    device::dlpack_device(object).ok()
}
