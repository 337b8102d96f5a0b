//! The devices that arrays are on, and making a device current.

mod placement;

use std::borrow::Cow;

use dlpark::ffi::{DLDevice, DLDeviceType};
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyString, PyTuple};

use crate::framework::loaded::Loaded;
use crate::framework::spec::Memory;
use crate::interpreter::error::attempt;
use crate::interpreter::fork;
use crate::interpreter::interrupt::{self, is_interrupt};
use crate::interpreter::once::Once;
pub use arraybridge_tensor::memory::view::is_host;

pub use placement::Placement;

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
    /// The memory of all processors is the host's.
    pub fn from_name(name: &str) -> Option<Device> {
        let (kind, index) = match name.split_once(':') {
            Some((kind, index)) => (kind, index.parse().ok()?),
            None => (name, 0),
        };
        match kind {
            "host" | "cpu" => Some(Device::Host),
            "accelerator" | "cuda" | "gpu" | "opencl" => Some(Device::Accelerator(index)),
            _ => None,
        }
    }
}

/// Returns whether this is CUDA memory to DLPack: a device's own, or managed.
pub fn is_cuda(device: DLDevice) -> bool {
    [DLDeviceType::CUDA, DLDeviceType::CUDAMANAGED].contains(&device.device_type)
}

/// The device of described memory.
pub fn of_memory(device: DLDevice) -> Device {
    if is_host(device) { Device::Host } else { Device::Accelerator(device.device_id as usize) }
}

/// The device that `__dlpack_device__()` returns.
///
/// # Errors
///
/// Any exception that the object raises, and a `TypeError` if it returns something else.
pub fn dlpack_device(data: &Bound<'_, PyAny>) -> PyResult<DLDevice> {
    let answer = data.call_method0(crate::intern!(data.py(), "__dlpack_device__"))?;
    let answer = answer.cast::<PyTuple>()?;
    let [device_type, device_id] = [answer.get_item(0)?, answer.get_item(1)?];
    Ok(DLDevice { device_type: DLDeviceType(whole(&device_type)?), device_id: whole(&device_id)? })
}

/// A number that is an integer, also as an enum of pybind11's, which `int()` takes alone.
fn whole<'py, T: FromPyObjectOwned<'py, Error = PyErr>>(number: &Bound<'py, PyAny>) -> PyResult<T> {
    number.extract().or_else(|error| {
        let is_float = number.is_instance_of::<PyFloat>();
        let as_int = || number.call_method0(crate::intern!(number.py(), "__int__"))?.extract();
        if is_float { Err(error) } else { attempt(number.py(), as_int()).ok_or(error) }
    })
}

impl<'py> Loaded<'py> {
    /// The device of an array of a framework.
    ///
    /// # Errors
    ///
    /// Any exception that the framework raises when the array has no device: it is deleted, traced
    /// or symbolic.
    #[inline]
    pub fn device_of(self, data: &Bound<'py, PyAny>) -> PyResult<Device> {
        match self.framework.memory {
            Memory::Host => Ok(Device::Host),
            Memory::Either if self.known_accelerators() == 0 => Ok(Device::Host),
            Memory::Accelerator if self.known_accelerators() == 1 => Ok(Device::Accelerator(0)),
            _ => self.ask_device_of(data),
        }
    }

    /// The placement of what is to be where an array is.
    pub fn placement_of(self, data: &Bound<'py, PyAny>) -> PyResult<Placement> {
        Ok(match self.framework.memory {
            Memory::Host => Placement::Auto,
            _ => Placement::On(self.device_of(data)?),
        })
    }

    fn ask_device_of(self, data: &Bound<'py, PyAny>) -> PyResult<Device> {
        if let Some(of) = self.framework.device.of {
            let object = of.call(self, [data])?;
            if let Some(index) = self.index_of(&object)? {
                return Ok(Device::Accelerator(index));
            }
            if self.framework.memory == Memory::Either {
                return Ok(Device::Host);
            }
        }
        Ok(of_memory(dlpack_device(data)?))
    }

    /// The DLPack device of an array. One whose class does not name it is asked for its device alone, and
    /// is in CUDA memory if that is an accelerator.
    pub fn dlpack_place(self, data: &Bound<'py, PyAny>) -> PyResult<DLDevice> {
        let py = self.py();
        match dlpack_device(data) {
            // TensorFlow has it since 2.20.
            Err(error) if error.is_instance_of::<PyAttributeError>(py) => {
                Ok(match self.device_of(data)? {
                    Device::Host => DLDevice::CPU,
                    Device::Accelerator(index) => DLDevice {
                        device_type: DLDeviceType::CUDA,
                        device_id: i32::try_from(index)?,
                    },
                })
            }
            answer => answer,
        }
    }

    /// The index of a device object, by equality with the framework's own.
    pub(super) fn index_of(self, object: &Bound<'py, PyAny>) -> PyResult<Option<usize>> {
        let py = self.py();
        let Some(at) = self.framework.device.at else { return Ok(None) };
        for index in 0..self.known_accelerators() {
            let candidate = at.call(self, [PyInt::new(py, index).as_any()])?;
            if candidate.eq(object)? {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    /// The index of a framework's current accelerator, or of its first one.
    pub fn current_device(self) -> PyResult<usize> {
        if self.accelerators() == 1 {
            return Ok(0);
        }
        let Some(current) = self.framework.device.current else { return Ok(0) };
        let answer = current.call(self, [])?;
        if answer.is_instance_of::<PyInt>() {
            return answer.extract();
        }
        Ok(self.index_of(&answer)?.unwrap_or(0))
    }

    /// A framework's object for a device; `None` if the framework has none.
    pub fn device_object(self, device: Device) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = self.py();
        let ops = &self.framework.device;
        match device {
            Device::Host => ops.host.map(|_| self.host_at(0)).transpose(),
            Device::Accelerator(index) => {
                let index = PyInt::new(py, index);
                ops.at.map(|at| at.call(self, [index.as_any()])).transpose()
            }
        }
    }

    /// Runs `body` with an accelerator made current, if the framework has a current one.
    pub fn on<T>(self, device: Device, body: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
        match device {
            Device::Accelerator(_) if self.framework.device.scope.is_some() => {
                self.within(device, |_| body())
            }
            _ => body(),
        }
    }

    /// Runs `body` with a device current: as it is, if the framework says that it is current, else in the framework's
    /// scope, after which the previous device is current again.
    #[inline]
    pub fn within<T>(
        self,
        device: Device,
        body: impl FnOnce(Option<&Bound<'py, PyAny>>) -> PyResult<T>,
    ) -> PyResult<T> {
        let object = self.device_object(device)?;
        let scope = match device {
            Device::Accelerator(index) if !self.is_current(index)? => self.framework.device.scope,
            _ => None,
        };
        let (Some(scope), Some(device)) = (scope, &object) else { return body(object.as_ref()) };
        let manager = scope.call(self, [device])?;
        entered(&manager, || body(Some(device)))
    }

    /// Does what [`within`](Self::within) does. Where CUDA's current device is known, the framework is not asked for it.
    pub fn while_current<T>(
        self,
        known: Option<usize>,
        device: Device,
        body: impl FnOnce() -> PyResult<T>,
    ) -> PyResult<T> {
        let is_known =
            self.framework.device.current.is_some() && self.framework.takes_cuda_memory();
        match known.filter(|_| is_known).map(Device::Accelerator) == Some(device) {
            true => body(),
            false => self.within(device, |_| body()),
        }
    }

    /// Returns whether an accelerator is the current one. Where the framework does not tell, it is not.
    fn is_current(self, index: usize) -> PyResult<bool> {
        Ok(self.framework.device.current.is_some() && self.current_device()? == index)
    }

    /// The host's device object; `None` for a framework without one.
    pub fn host(self) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py();
        let make = || -> PyResult<Py<PyAny>> {
            let object = self.device_object(Device::Host)?;
            Ok(object.map_or_else(|| py.None(), Bound::unbind))
        };
        Ok(self.host.try_once(py, make)?.bind(py).clone())
    }

    /// The device on which the framework puts host data that nobody places: the host, unless the
    /// program set another default.
    #[inline]
    pub fn default_device(self) -> PyResult<Device> {
        let Some(op) = self.framework.device.default else { return Ok(Device::Host) };
        let object = op.call(self, [])?;
        if object.is_none() { Ok(Device::Host) } else { self.device_named(&object) }
    }

    #[cold]
    fn device_named(self, object: &Bound<'_, PyAny>) -> PyResult<Device> {
        if let Ok(name) = object.cast::<PyString>() {
            return Ok(Device::from_name(name.to_str()?).unwrap_or(Device::Host));
        }
        let index = self.index_of(object)?;
        Ok(index.map_or(Device::Host, Device::Accelerator))
    }

    /// The host's device object on which host memory is imported: the default one, if the framework
    /// has several and the program set one of them.
    #[inline]
    pub fn import_host(self) -> PyResult<Bound<'py, PyAny>> {
        match self.has_several_hosts()? {
            true => self.default_host(),
            false => self.host(),
        }
    }

    /// Returns whether arrays can be on one device alone, so that nobody can tell who put them
    /// there.
    pub fn has_one_device(self) -> bool {
        self.known_accelerators() == 0 && self.has_several_hosts().is_ok_and(|several| !several)
    }

    /// Returns whether the framework divides the processor into several devices.
    pub fn has_several_hosts(self) -> PyResult<bool> {
        Ok(self.hosts()?.is_some_and(|hosts| hosts > 1))
    }

    /// The number of the host's devices; `None` if the framework does not number them.
    pub(super) fn hosts(self) -> PyResult<Option<usize>> {
        let Some(op) = self.framework.device.hosts else { return Ok(None) };
        // Without host arrays, they are accelerators.
        if self.framework.memory == Memory::Accelerator {
            return Ok(None);
        }
        if let Some(hosts) = self.hosts.get() {
            return Ok(Some(*hosts));
        }
        let hosts = op.call(self, [])?.len()?;
        Ok(Some(*self.hosts.get_or_init(|| hosts)))
    }

    /// The host's device object of an index.
    pub fn host_at(self, index: usize) -> PyResult<Bound<'py, PyAny>> {
        let host = self.framework.device.host.expect("a framework with host devices names them");
        host.call(self, [PyInt::new(self.py(), index).as_any()])
    }

    /// The index of the host's device that an array is bound to, if there are several.
    pub fn host_of(self, data: &Bound<'py, PyAny>) -> PyResult<Option<usize>> {
        let Some(of) = self.framework.device.host_of else { return Ok(None) };
        if !self.has_several_hosts()? {
            return Ok(None);
        }
        let object = of.call(self, [data])?;
        for index in 0..self.hosts()?.unwrap_or(0) {
            if self.host_at(index)?.eq(&object)? {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    /// Runs `body` with one of the host's devices made current, and makes the previous one current again.
    pub fn on_host<T, E: From<PyErr>>(
        self,
        index: usize,
        body: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let Some(scope) = self.framework.device.host_scope else { return body() };
        let manager = scope.call(self, [&self.host_at(index)?])?;
        let mut done = None;
        entered(&manager, || {
            done = Some(body());
            Ok(())
        })?;
        done.expect("the body has run")
    }

    /// Returns whether the first of the host's devices is the one on which the framework puts host data now.
    #[cold]
    pub fn default_is_first_host(self) -> PyResult<bool> {
        self.default_host()?.eq(self.host_at(0)?)
    }

    #[cold]
    fn default_host(self) -> PyResult<Bound<'py, PyAny>> {
        let ops = &self.framework.device;
        if let (Some(hosts), Some(default)) = (ops.hosts, ops.default) {
            let default = default.call(self, [])?;
            if hosts.call(self, [])?.contains(&default)? {
                return Ok(default);
            }
        }
        self.host()
    }

    /// The number of accelerators that the framework can use: none of CUDA's in a process that was
    /// forked from one that used CUDA.
    #[inline]
    pub fn accelerators(self) -> usize {
        if self.has_lost_cuda() { 0 } else { self.known_accelerators() }
    }

    /// Returns whether its accelerators are CUDA devices that were lost in a fork.
    pub fn has_lost_cuda(self) -> bool {
        fork::has_lost_cuda() && self.framework.takes_cuda_memory()
    }

    /// The number of accelerators on which arrays may be.
    pub fn known_accelerators(self) -> usize {
        let py = self.py();
        if let Some(count) = self.accelerators.get() {
            return *count;
        }
        match self.count_accelerators() {
            // Counting can run Python, so another thread may have been first, with the same answer.
            Ok(count) => *self.accelerators.get_or_init(|| count),
            // It is asked again the next time.
            Err(error) => {
                interrupt::defer(py, error);
                0
            }
        }
    }

    /// Returns whether the accelerators were counted before, and there are some.
    pub fn has_counted_any(self) -> bool {
        self.accelerators.get().is_some_and(|count| *count > 0)
    }

    /// Fails only if it is interrupted.
    fn count_accelerators(self) -> PyResult<usize> {
        let py = self.py();
        let Some(count) = self.framework.device.count else { return Ok(0) };
        match count.call(self, []) {
            Ok(answer) => Ok(match answer.cast::<PyInt>() {
                Ok(number) => number.extract().unwrap_or(0),
                Err(_) => answer.len().unwrap_or(0),
            }),
            // Frameworks raise here when there is no driver, and so no device.
            Err(error) if !is_interrupt(py, &error) => Ok(0),
            Err(error) => Err(error),
        }
    }
}

/// Runs `body` inside a context manager.
pub fn entered<'py, T>(
    manager: &Bound<'py, PyAny>,
    body: impl FnOnce() -> PyResult<T>,
) -> PyResult<T> {
    let py = manager.py();
    manager.call_method0(crate::intern!(py, "__enter__"))?;
    let result = body();
    let exit = crate::intern!(py, "__exit__");
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
