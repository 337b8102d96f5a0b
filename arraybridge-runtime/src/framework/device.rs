//! Where arrays are, and where a caller asks for them to be.

use dlpark::ffi::{DLDevice, DLDeviceType};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyString, PyTuple};

use crate::framework::endpoints::Endpoints;
use crate::framework::loaded::LoadedFramework;
use crate::framework::spec::Memory;
use crate::interpreter::error::{Error, Failure, Result, first_line};
pub use crate::memory::view::is_host;

/// A place as a framework numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Device {
    /// Host memory.
    Host,
    /// The framework's accelerator of this index.
    Accelerator(usize),
}

impl std::fmt::Display for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Device::Host => f.write_str("host"),
            Device::Accelerator(index) => write!(f, "accelerator:{index}"),
        }
    }
}

/// Where the result of a conversion should be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// On the kind of device where the source is, else on the target's current device.
    #[default]
    Auto,
    /// There, or the conversion fails.
    On(Device),
    /// On this accelerator; frameworks with host memory only ignore it (`gpu_id`).
    Gpu(usize),
}

impl Placement {
    /// Reads a `gpu_id` argument: `None` or an index that is not negative.
    ///
    /// # Errors
    ///
    /// [`Error::Type`] for anything but an `int`, [`Failure::Device`] for a negative one.
    pub fn from_gpu_id(value: &Bound<'_, PyAny>, ends: Endpoints) -> Result<Placement> {
        if value.is_none() {
            return Ok(Placement::Auto);
        }
        if value.is_instance_of::<PyBool>() || !value.is_instance_of::<PyInt>() {
            return Err(Error::Type(format!(
                "gpu_id must be None or an int, not {}; convert(.., device=..) takes names such as \
                 \"cuda:1\" and \"host\"",
                value.get_type().name()?
            )));
        }
        let index = value.extract().map_err(|_| {
            let reason = format!("gpu_id {value} is no device index; use None, 0 or more");
            ends.error(Failure::Device, "device", reason)
        })?;
        Ok(Placement::Gpu(index))
    }

    /// Reads a `device` argument: `None`, `"host"`, `"cpu"`, `"accelerator:1"`, `"cuda:1"`,
    /// `"gpu"` or an index.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] for another name, [`Error::Type`] for another type, [`Failure::Device`]
    /// for a negative index.
    pub fn from_device(value: &Bound<'_, PyAny>, ends: Endpoints) -> Result<Placement> {
        if value.is_none() {
            return Ok(Placement::Auto);
        }
        if value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>() {
            let index = value.extract().map_err(|_| {
                let reason =
                    format!("device {value} is no device index; use 0 or more, or \"host\"");
                ends.error(Failure::Device, "device", reason)
            })?;
            return Ok(Placement::On(Device::Accelerator(index)));
        }
        let Ok(name) = value.cast::<PyString>() else {
            return Err(Error::Type(format!(
                "device must be None, a str or an int, not {}",
                value.get_type().name()?
            )));
        };
        let name = name.to_str()?;
        named(name).map(Placement::On).ok_or_else(|| {
            Error::Value(format!(
                "unknown device {name:?}; use \"host\", \"cpu\", \"accelerator\", \
                 \"accelerator:1\", \"cuda:1\", \"gpu:1\" or an index"
            ))
        })
    }
}

/// The device of a name.
pub(crate) fn named(name: &str) -> Option<Device> {
    let (kind, index) = match name.split_once(':') {
        Some((kind, index)) => (kind, index.parse().ok()?),
        None => (name, 0),
    };
    match kind {
        "host" | "cpu" => (index == 0).then_some(Device::Host),
        "accelerator" | "cuda" | "gpu" | "opencl" => Some(Device::Accelerator(index)),
        _ => None,
    }
}

/// Whether DLPack calls this CUDA memory: a device's own, or managed.
pub fn is_cuda(device_type: u32) -> bool {
    [DLDeviceType::CUDA.0, DLDeviceType::CUDAMANAGED.0].contains(&device_type)
}

/// The place of described memory.
pub fn of_memory(device: DLDevice) -> Device {
    if is_host(device) { Device::Host } else { Device::Accelerator(device.device_id as usize) }
}

/// The device of an array of a framework.
///
/// # Errors
///
/// What the framework raises when the array has no device (it is deleted, traced or symbolic).
pub fn device_of<'py>(
    py: Python<'py>,
    loaded: &LoadedFramework,
    data: &Bound<'py, PyAny>,
) -> Result<Device, PyErr> {
    match loaded.framework.memory {
        Memory::Host => return Ok(Device::Host),
        Memory::Either if loaded.accelerators(py) == 0 => return Ok(Device::Host),
        Memory::Accelerator if loaded.accelerators(py) == 1 => return Ok(Device::Accelerator(0)),
        _ => {}
    }
    if let Some(of) = loaded.framework.device.of {
        let object = of.call(py, [loaded.module(py), data])?;
        if let Some(index) = index_of(py, loaded, &object)? {
            return Ok(Device::Accelerator(index));
        }
        if loaded.framework.memory == Memory::Either {
            return Ok(Device::Host);
        }
    }
    let (device_type, index) = dlpack_device(data)?;
    Ok(of_memory(DLDevice { device_type: DLDeviceType(device_type), device_id: index }))
}

/// What `__dlpack_device__()` says.
pub fn dlpack_device(data: &Bound<'_, PyAny>) -> PyResult<(u32, i32)> {
    let answer = data.call_method0(pyo3::intern!(data.py(), "__dlpack_device__"))?;
    let answer = answer.cast::<PyTuple>()?;
    // The type may be an IntEnum, the index any object with `__index__`.
    Ok((answer.get_item(0)?.extract()?, answer.get_item(1)?.extract()?))
}

/// The index of a device object, by equality with the framework's own.
fn index_of<'py>(
    py: Python<'py>,
    loaded: &LoadedFramework,
    object: &Bound<'py, PyAny>,
) -> PyResult<Option<usize>> {
    let Some(at) = loaded.framework.device.at else { return Ok(None) };
    for index in 0..loaded.accelerators(py) {
        let candidate = at.call(py, [loaded.module(py), PyInt::new(py, index).as_any()])?;
        if candidate.eq(object)? {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

/// A framework's current accelerator, or its first one.
pub fn current(py: Python<'_>, loaded: &LoadedFramework) -> Result<usize, PyErr> {
    if loaded.accelerators(py) == 1 {
        return Ok(0);
    }
    let Some(current) = loaded.framework.device.current else { return Ok(0) };
    let answer = current.call(py, [loaded.module(py)])?;
    if answer.is_instance_of::<PyInt>() {
        return answer.extract();
    }
    Ok(index_of(py, loaded, &answer)?.unwrap_or(0))
}

/// Where a result goes: the placement that was asked for, checked against what is there.
///
/// # Errors
///
/// [`Failure::Device`] when the target has no such device.
pub fn place(
    py: Python<'_>,
    loaded: &LoadedFramework,
    source: Device,
    wanted: Placement,
    ends: Endpoints,
) -> Result<Device> {
    let framework = loaded.framework;
    let unavailable = |what: String| {
        let there = available(py, loaded);
        let reason = format!("{} {what}; it has {there}", framework.title);
        Err(ends.error(Failure::Device, "device", reason))
    };
    let device = match (wanted, framework.memory) {
        (Placement::Auto | Placement::Gpu(_), Memory::Host) => Device::Host,
        (Placement::Auto, Memory::Either) if source == Device::Host => Device::Host,
        (Placement::Auto, _) => {
            let count = loaded.accelerators(py);
            match (source, framework.memory) {
                (_, Memory::Either) if count == 0 => Device::Host,
                (_, _) if count == 0 => {
                    return unavailable("has no device to put arrays on".into());
                }
                (Device::Accelerator(index), Memory::Either) if index < count => {
                    Device::Accelerator(index)
                }
                _ => Device::Accelerator(current(py, loaded).map_err(|error| {
                    let reason = format!(
                        "{} has no current device ({})",
                        framework.title,
                        first_line(py, &error)
                    );
                    ends.caused(Failure::Device, "device", reason, Some(error))
                })?),
            }
        }
        (Placement::On(device), _) => device,
        (Placement::Gpu(index), _) => Device::Accelerator(index),
    };
    match device {
        Device::Host if framework.memory == Memory::Accelerator => {
            unavailable("keeps arrays on accelerators only, not on the host".into())
        }
        Device::Accelerator(_) if framework.memory == Memory::Host => {
            unavailable("keeps arrays in host memory only".into())
        }
        Device::Accelerator(index) if index >= loaded.accelerators(py) => {
            unavailable(format!("has no accelerator {index}"))
        }
        device => Ok(device),
    }
}

fn available(py: Python<'_>, loaded: &LoadedFramework) -> String {
    let count = loaded.accelerators(py);
    let accelerators = match count {
        0 => "no accelerator".to_string(),
        1 => "accelerator 0".to_string(),
        _ => format!("accelerators 0 to {}", count - 1),
    };
    match loaded.framework.memory {
        Memory::Host => "the host".to_string(),
        Memory::Accelerator => accelerators,
        Memory::Either => format!("the host and {accelerators}"),
    }
}

/// A framework's device object for a place; `None` where the framework needs none.
pub fn object<'py>(
    py: Python<'py>,
    loaded: &LoadedFramework,
    device: Device,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let ops = &loaded.framework.device;
    match device {
        Device::Host => ops.host.map(|host| host.call(py, [loaded.module(py)])).transpose(),
        Device::Accelerator(index) => {
            let index = PyInt::new(py, index);
            ops.at.map(|at| at.call(py, [loaded.module(py), index.as_any()])).transpose()
        }
    }
}

/// Runs `body` with a device made current, and makes the former one current again.
pub fn within<'py, T>(
    py: Python<'py>,
    loaded: &LoadedFramework,
    device: Device,
    body: impl FnOnce(Option<&Bound<'py, PyAny>>) -> PyResult<T>,
) -> PyResult<T> {
    let object = object(py, loaded, device)?;
    let scope = match device {
        Device::Host => None,
        Device::Accelerator(_) => loaded.framework.device.scope,
    };
    let (Some(scope), Some(device)) = (scope, &object) else { return body(object.as_ref()) };
    let manager = scope.call(py, [loaded.module(py), device])?;
    entered(&manager, || body(Some(device)))
}

/// Runs `body` inside a context manager.
pub fn entered<'py, T>(
    manager: &Bound<'py, PyAny>,
    body: impl FnOnce() -> PyResult<T>,
) -> PyResult<T> {
    let py = manager.py();
    manager.call_method0(pyo3::intern!(py, "__enter__"))?;
    let result = body();
    let exit = pyo3::intern!(py, "__exit__");
    match result {
        Ok(value) => {
            manager.call_method1(exit, (py.None(), py.None(), py.None()))?;
            Ok(value)
        }
        Err(error) => {
            let traceback = error.traceback(py);
            let left = manager.call_method1(exit, (error.get_type(py), error.value(py), traceback));
            // What the body raised matters more than what leaving raises.
            if let Err(second) = left
                && second.is_instance_of::<PyException>(py)
                && error.cause(py).is_none()
            {
                error.set_cause(py, Some(second));
            }
            Err(error)
        }
    }
}
