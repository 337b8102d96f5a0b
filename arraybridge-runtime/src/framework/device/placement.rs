//! The place where a caller wants an array to be, and the device that this means.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyString};

use super::Device;
use crate::framework::loaded::Loaded;
use crate::framework::spec::{Framework, Memory};
use crate::interpreter::error::{Error, Failure, Result, first_line};
use crate::interpreter::fork;

/// The place where the result of a conversion should be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// On the device where the source is, if the target has it, else on the target's current device.
    #[default]
    Auto,
    /// On this device, or the conversion fails.
    On(Device),
    /// On the host's device of this index, or the conversion fails. A framework that does not number the processors
    /// has host memory alone.
    OnHost(usize),
    /// On the target's current accelerator, or the conversion fails.
    OnCurrent,
    /// On this accelerator (`gpu_id`). Without any accelerator the array goes to the host, if the
    /// target has host arrays.
    Gpu(usize),
}

impl Placement {
    /// Reads a `gpu_id` argument: `None`, an index that is not negative, or a device object as
    /// [`Placement::from_device`] takes it.
    ///
    /// # Errors
    ///
    /// [`Error::Type`] for another type, [`Failure::DeviceIndex`] for a negative index.
    pub fn from_gpu_id(
        value: &Bound<'_, PyAny>,
        framework: &'static Framework,
    ) -> Result<Placement> {
        if value.is_none() {
            return Ok(Placement::Auto);
        }
        if value.is_instance_of::<PyBool>() || !value.is_instance_of::<PyInt>() {
            // Callers of the original's later versions give a device in the place of an index.
            if !value.is_instance_of::<PyString>() && device_name(value).is_some() {
                return Placement::from_device(value, framework);
            }
            return Err(Error::Type(format!(
                "gpu_id must be None or an int, not {}; convert(.., device=..) takes names such as \
                 \"cuda:1\" and \"host\"",
                value.get_type().name()?
            )));
        }
        let index = value.extract().map_err(|_| {
            let reason =
                format!("gpu_id {value} is not a device index; use None, 0 or a positive number");
            framework.error(Failure::DeviceIndex, "device", reason)
        })?;
        Ok(Placement::Gpu(index))
    }

    /// Reads a `device` argument: `None`, a name that [`Device::from_name`] knows, an index, or a device of
    /// torch's, JAX's or CuPy's.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] for another name, [`Error::Type`] for another type, [`Failure::DeviceIndex`]
    /// for a negative index.
    pub fn from_device(
        value: &Bound<'_, PyAny>,
        framework: &'static Framework,
    ) -> Result<Placement> {
        if value.is_none() {
            return Ok(Placement::Auto);
        }
        if value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>() {
            let index = value.extract().map_err(|_| {
                let reason = format!(
                    "device {value} is not a device index; use 0 or a positive number, or \"host\""
                );
                framework.error(Failure::DeviceIndex, "device", reason)
            })?;
            return Ok(Placement::On(Device::Accelerator(index)));
        }
        let Some(name) = device_name(value) else {
            return Err(Error::Type(format!(
                "device must be None, a str, an int or a device of torch, JAX or CuPy, not {}",
                value.get_type().name()?
            )));
        };
        let index = name.split_once(':').and_then(|(_, index)| index.parse().ok());
        // As in the frameworks, an accelerator without an index is the current one.
        let wanted = |device| match (device, index) {
            (Device::Accelerator(_), None) => Placement::OnCurrent,
            (Device::Host, Some(index)) => Placement::OnHost(index),
            _ => Placement::On(device),
        };
        Device::from_name(&name).map(wanted).ok_or_else(|| {
            Error::Value(format!(
                "unknown device {name:?}; use \"host\", \"cpu\", \"cpu:1\", \"accelerator\", \
                 \"accelerator:1\", \"cuda:1\", \"gpu:1\" or an index"
            ))
        })
    }

    /// The device, where it is decided.
    pub fn device(self) -> Option<Device> {
        match self {
            Placement::On(device) => Some(device),
            Placement::OnHost(_) => Some(Device::Host),
            _ => None,
        }
    }

    /// Returns whether an accelerator was preferred, and `device` is the host of a framework that
    /// can have accelerators.
    pub fn is_missed(self, framework: &Framework, device: Device) -> bool {
        matches!(self, Placement::Gpu(_))
            && device == Device::Host
            && framework.memory == Memory::Either
    }
}

/// The name of a device: a string, or that of an object with a kind and an index. A device of CuPy's has an
/// index alone, and is known by what CUDA says of it.
fn device_name(value: &Bound<'_, PyAny>) -> Option<String> {
    if let Ok(name) = value.cast::<PyString>() {
        return name.to_str().ok().map(str::to_owned);
    }
    let text = |attribute| value.getattr(attribute).ok()?.extract::<String>().ok();
    let index = |attribute| value.getattr(attribute).ok()?.extract::<usize>().ok();
    if let (Some(kind), Ok(number)) = (text("type"), value.getattr("index")) {
        return match number.is_none() {
            true => Some(kind),
            false => Some(format!("{kind}:{}", number.extract::<usize>().ok()?)),
        };
    }
    if let Some(kind) = text("platform") {
        return Some(format!("{kind}:{}", index("local_hardware_id").or_else(|| index("id"))?));
    }
    let is_cuda = value.get_type().hasattr("compute_capability").unwrap_or(false);
    Some(format!("cuda:{}", index("id").filter(|_| is_cuda)?))
}

impl Loaded<'_> {
    /// The device that a placement means for an array of `owner` on `source`.
    ///
    /// # Errors
    ///
    /// [`Failure::Device`] when the target has no such device.
    pub fn resolve(self, owner: &Framework, source: Device, wanted: Placement) -> Result<Device> {
        let (title, memory) = (self.framework.title, self.framework.memory);
        if let Placement::OnHost(index) = wanted
            && let Some(count) = self.hosts()?.filter(|count| index >= *count)
        {
            let devices: Vec<_> = (0..count).map(|index| format!("host:{index}")).collect();
            let reason =
                format!("{title} has no host device {index}; available: {}", devices.join(", "));
            return Err(self.framework.error(Failure::Device, "device", reason));
        }
        // Counting makes some frameworks set up their devices, so it waits until the count matters.
        let count = || self.accelerators();
        let source = match memory {
            // The numbers of accelerators mean the same to frameworks that exchange their memory.
            Memory::Accelerator if !exchanges(owner, self.framework) => Device::Host,
            _ => source,
        };
        let device = match choose(memory, source, wanted, count) {
            DeviceChoice::Is(device) => device,
            DeviceChoice::Default => self.default_device()?,
            DeviceChoice::Current => {
                Device::Accelerator(self.current_device().map_err(|error| {
                    let line = first_line(self.py(), &error);
                    let reason = format!(
                        "{title} does not name its current device ({line}); ask for one, as in \
                 device=\"accelerator:0\""
                    );
                    self.framework.error(Failure::Device, "device", reason).caused_by(error)
                })?)
            }
        };
        match absent(memory, device, count) {
            None => Ok(device),
            Some(what) => {
                let reason = match self.has_lost_cuda() {
                    true => format!("{title} cannot use a GPU: {}", fork::LOST_CUDA),
                    false => format!("{title} {what}"),
                };
                Err(self.framework.error(Failure::Device, "device", reason))
            }
        }
    }
}

impl Loaded<'_> {
    /// The index of the host's device that a placement means, if there are several.
    pub fn chosen_host(self, wanted: Placement) -> Result<Option<usize>> {
        Ok(match wanted {
            Placement::OnHost(index) => {
                self.hosts()?.filter(|hosts| 1 < *hosts && index < *hosts).map(|_| index)
            }
            _ => None,
        })
    }
}

/// Returns whether the target takes memory of the source's as it is.
fn exchanges(source: &Framework, target: &Framework) -> bool {
    source.export.is_some() && target.import.is_some()
}

/// The choice that a placement comes down to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeviceChoice {
    /// This device.
    Is(Device),
    /// The device on which the target puts host data that nobody places.
    Default,
    /// The accelerator that is current in the target.
    Current,
}

/// Decides where an array goes that is on `source`, whether the target has that device or not.
fn choose(
    memory: Memory,
    source: Device,
    wanted: Placement,
    count: impl Fn() -> usize,
) -> DeviceChoice {
    match (wanted, memory, source) {
        (Placement::On(device), ..) => DeviceChoice::Is(device),
        (Placement::OnHost(_), ..) => DeviceChoice::Is(Device::Host),
        (Placement::OnCurrent, Memory::Host, _) => DeviceChoice::Is(Device::Accelerator(0)),
        (Placement::OnCurrent, ..) if count() == 0 => DeviceChoice::Is(Device::Accelerator(0)),
        (Placement::OnCurrent, ..) => DeviceChoice::Current,
        (_, Memory::Host, _) => DeviceChoice::Is(Device::Host),
        (Placement::Auto, Memory::Either, Device::Host) => DeviceChoice::Default,
        (Placement::Gpu(_), Memory::Either, _) if count() == 0 => DeviceChoice::Is(Device::Host),
        (Placement::Gpu(index), ..) => DeviceChoice::Is(Device::Accelerator(index)),
        (Placement::Auto, ..) => match (count(), memory, source) {
            (0, Memory::Either, _) => DeviceChoice::Is(Device::Host),
            (0, ..) => DeviceChoice::Is(Device::Accelerator(0)),
            (count, _, Device::Accelerator(index)) if index < count => DeviceChoice::Is(source),
            _ => DeviceChoice::Current,
        },
    }
}

/// The reason why an array cannot be on a device, with the devices that there are; `None` if it
/// can.
fn absent(memory: Memory, device: Device, count: impl Fn() -> usize) -> Option<String> {
    let count = match (device, memory) {
        (Device::Host, Memory::Host | Memory::Either) => return None,
        (Device::Accelerator(_), Memory::Host) => 0,
        _ => count(),
    };
    let what = match device {
        Device::Accelerator(index) if index < count => return None,
        Device::Accelerator(index) => format!("has no accelerator {index}"),
        Device::Host => "has no host arrays".to_owned(),
    };
    let host = (memory != Memory::Accelerator).then_some(Device::Host);
    let devices = host.into_iter().chain((0..count).map(Device::Accelerator));
    let devices: Vec<_> = devices.map(|device| device.to_string()).collect();
    Some(match devices.is_empty() {
        true => "finds no accelerator on this machine, and has no host arrays; convert to another \
                 framework"
            .to_owned(),
        false => format!("{what}; available: {}", devices.join(", ")),
    })
}

#[cfg(test)]
mod tests;
