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
mod tests {
    use super::*;

    const ACCELERATOR: Device = Device::Accelerator(1);

    fn is(device: Device) -> DeviceChoice {
        DeviceChoice::Is(device)
    }

    #[test]
    fn an_array_stays_on_the_kind_of_device_where_it_is() {
        let auto = |memory, source, count| choose(memory, source, Placement::Auto, || count);
        assert_eq!(auto(Memory::Either, Device::Host, 2), DeviceChoice::Default);
        assert_eq!(auto(Memory::Either, ACCELERATOR, 2), is(ACCELERATOR));
        assert_eq!(auto(Memory::Accelerator, ACCELERATOR, 2), is(ACCELERATOR));
        assert_eq!(auto(Memory::Host, ACCELERATOR, 0), is(Device::Host));
    }

    #[test]
    fn an_array_goes_to_the_current_device_where_its_own_does_not_exist() {
        let auto = |memory, source, count| choose(memory, source, Placement::Auto, || count);
        assert_eq!(auto(Memory::Either, ACCELERATOR, 1), DeviceChoice::Current);
        assert_eq!(auto(Memory::Accelerator, ACCELERATOR, 1), DeviceChoice::Current);
        assert_eq!(auto(Memory::Accelerator, Device::Host, 1), DeviceChoice::Current);
        assert_eq!(auto(Memory::Either, ACCELERATOR, 0), is(Device::Host));
        // Without any accelerator, the framework is not asked for its current one.
        assert_eq!(auto(Memory::Accelerator, Device::Host, 0), is(Device::Accelerator(0)));
    }

    #[test]
    fn a_device_is_demanded_and_a_gpu_id_preferred() {
        let demanded = Placement::On(ACCELERATOR);
        assert_eq!(choose(Memory::Host, Device::Host, demanded, || 0), is(ACCELERATOR));
        let preferred = Placement::Gpu(1);
        assert_eq!(choose(Memory::Host, Device::Host, preferred, || 0), is(Device::Host));
        assert_eq!(choose(Memory::Either, Device::Host, preferred, || 0), is(Device::Host));
        assert_eq!(choose(Memory::Either, Device::Host, preferred, || 1), is(ACCELERATOR));
        assert_eq!(choose(Memory::Accelerator, Device::Host, preferred, || 0), is(ACCELERATOR));
    }

    #[test]
    fn an_accelerator_without_an_index_is_the_current_one() {
        let current = |memory, count| choose(memory, ACCELERATOR, Placement::OnCurrent, || count);
        assert_eq!(current(Memory::Either, 2), DeviceChoice::Current);
        assert_eq!(current(Memory::Accelerator, 1), DeviceChoice::Current);
        // Where there is none, that is what the error says.
        assert_eq!(current(Memory::Either, 0), is(Device::Accelerator(0)));
        assert_eq!(current(Memory::Host, 0), is(Device::Accelerator(0)));
    }

    #[test]
    fn accelerators_are_not_counted_for_host_arrays() {
        let count = || panic!("counted");
        assert_eq!(
            choose(Memory::Either, Device::Host, Placement::Auto, count),
            DeviceChoice::Default
        );
        assert_eq!(absent(Memory::Either, Device::Host, count), None);
    }

    #[test]
    fn a_device_that_is_absent_is_answered_with_those_that_are_there() {
        let text = |memory, device, count| absent(memory, device, || count).unwrap();
        assert_eq!(
            text(Memory::Either, Device::Accelerator(7), 2),
            "has no accelerator 7; available: host, accelerator:0, accelerator:1"
        );
        assert_eq!(
            text(Memory::Accelerator, Device::Host, 1),
            "has no host arrays; available: accelerator:0"
        );
        assert_eq!(text(Memory::Host, ACCELERATOR, 0), "has no accelerator 1; available: host");
        assert_eq!(
            text(Memory::Accelerator, Device::Accelerator(0), 0),
            "finds no accelerator on this machine, and has no host arrays; convert to another \
             framework"
        );
        assert_eq!(absent(Memory::Either, ACCELERATOR, || 2), None);
    }

    #[test]
    fn devices_have_names() {
        let device = Device::from_name;
        assert_eq!(device("cpu"), Some(Device::Host));
        assert_eq!(device("cpu:1"), Some(Device::Host));
        assert_eq!(device("cuda"), Some(Device::Accelerator(0)));
        assert_eq!(device(&ACCELERATOR.to_string()), Some(ACCELERATOR));
        assert_eq!(device(&Device::Host.to_string()), Some(Device::Host));
        assert_eq!(device("host:1"), Some(Device::Host));
        for name in ["", "cpu:x", "cuda:", "cuda:-1", "cuda:x", "tpu:0"] {
            assert_eq!(device(name), None, "{name:?}");
        }
    }
}
