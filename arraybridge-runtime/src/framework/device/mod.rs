//! Where arrays are, and making a device current.

mod placement;

use std::borrow::Cow;

use dlpark::ffi::{DLDevice, DLDeviceType};
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyTuple};

use crate::framework::loaded::LoadedFramework;
use crate::framework::spec::Memory;
use crate::interpreter::interrupt::is_interrupt;
pub use crate::memory::view::is_host;

pub use placement::{Placement, resolve};

/// A device, as a framework numbers it.
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

impl Device {
    /// Its name in records, as [`Device::from_name`] takes it.
    pub fn name(self) -> Cow<'static, str> {
        match self {
            Device::Host => "host".into(),
            Device::Accelerator(_) => self.to_string().into(),
        }
    }

    /// The device that users write as `"host"`, `"cpu"`, `"cpu:1"`, `"accelerator:1"`, `"cuda:1"`, `"gpu:1"` or
    /// `"opencl:1"`. Without an index it is the first one; [`Placement::from_device`] takes the current one instead.
    pub fn from_name(name: &str) -> Option<Device> {
        let (kind, index) = match name.split_once(':') {
            Some((kind, index)) => (kind, index.parse().ok()?),
            None => (name, 0),
        };
        match kind {
            "host" => (index == 0).then_some(Device::Host),
            // Some frameworks number the processors, whose memory is the host's.
            "cpu" => Some(Device::Host),
            "accelerator" | "cuda" | "gpu" | "opencl" => Some(Device::Accelerator(index)),
            _ => None,
        }
    }
}

/// Whether this is CUDA memory to DLPack: a device's own, or managed.
pub fn is_cuda(device_type: u32) -> bool {
    [DLDeviceType::CUDA.0, DLDeviceType::CUDAMANAGED.0].contains(&device_type)
}

/// The device of described memory.
pub fn of_memory(device: DLDevice) -> Device {
    if is_host(device) { Device::Host } else { Device::Accelerator(device.device_id as usize) }
}

/// The device of an array of a framework.
///
/// # Errors
///
/// What the framework raises when the array has no device: it is deleted, traced or symbolic.
#[inline]
pub fn device_of<'py>(
    py: Python<'py>,
    loaded: &LoadedFramework,
    data: &Bound<'py, PyAny>,
) -> PyResult<Device> {
    match loaded.framework.memory {
        Memory::Host => Ok(Device::Host),
        Memory::Either if loaded.known_accelerators(py) == 0 => Ok(Device::Host),
        Memory::Accelerator if loaded.known_accelerators(py) == 1 => Ok(Device::Accelerator(0)),
        _ => ask_device_of(py, loaded, data),
    }
}

fn ask_device_of<'py>(
    py: Python<'py>,
    loaded: &LoadedFramework,
    data: &Bound<'py, PyAny>,
) -> PyResult<Device> {
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

/// The DLPack device type and index that `__dlpack_device__()` returns.
pub fn dlpack_device(data: &Bound<'_, PyAny>) -> PyResult<(u32, i32)> {
    let answer = data.call_method0(pyo3::intern!(data.py(), "__dlpack_device__"))?;
    let answer = answer.cast::<PyTuple>()?;
    // The type may be an IntEnum, the index any object with `__index__`.
    Ok((answer.get_item(0)?.extract()?, answer.get_item(1)?.extract()?))
}

/// The DLPack device of an array. One whose class does not name it is asked for its device alone, and
/// is in CUDA memory if that is an accelerator.
///
/// # Errors
///
/// As [`device_of`].
pub fn dlpack_place<'py>(
    py: Python<'py>,
    loaded: &LoadedFramework,
    data: &Bound<'py, PyAny>,
) -> PyResult<(u32, i32)> {
    match dlpack_device(data) {
        // TensorFlow has it since 2.20.
        Err(error) if error.is_instance_of::<PyAttributeError>(py) => {
            Ok(match device_of(py, loaded, data)? {
                Device::Host => (DLDeviceType::CPU.0, 0),
                Device::Accelerator(index) => (DLDeviceType::CUDA.0, i32::try_from(index)?),
            })
        }
        answer => answer,
    }
}

/// The index of a device object, by equality with the framework's own.
pub(super) fn index_of<'py>(
    py: Python<'py>,
    loaded: &LoadedFramework,
    object: &Bound<'py, PyAny>,
) -> PyResult<Option<usize>> {
    let Some(at) = loaded.framework.device.at else { return Ok(None) };
    for index in 0..loaded.known_accelerators(py) {
        let candidate = at.call(py, [loaded.module(py), PyInt::new(py, index).as_any()])?;
        if candidate.eq(object)? {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

/// The index of a framework's current accelerator, or of its first one.
pub fn current(py: Python<'_>, loaded: &LoadedFramework) -> PyResult<usize> {
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

/// A framework's object for a device; `None` if the framework has none.
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

/// Runs `body` with a device made current, and makes the previous one current again.
#[inline]
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
            // The body's exception is raised; that of leaving becomes its cause.
            if let Err(second) = left
                && !is_interrupt(py, &second)
                && error.cause(py).is_none()
            {
                error.set_cause(py, Some(second));
            }
            Err(error)
        }
    }
}
