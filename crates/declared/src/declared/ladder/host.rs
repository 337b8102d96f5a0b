//! The rung that makes the call in host memory.

use arraybridge_runtime::interpreter::package::Part;
use pyo3::prelude::*;
use pyo3::types::PyInt;

use super::Ladder;
use crate::declared::arguments::Destination;
use crate::declared::call::{AttemptOptions, Call};
use arraybridge_runtime::framework::device::{Device, Placement};
use arraybridge_runtime::framework::generated::MemoryType;
use arraybridge_runtime::framework::loaded;
use arraybridge_runtime::framework::spec::{Framework, Memory};
use arraybridge_runtime::interpreter::error::first_line;

const ALREADY_ON_HOST: &str = "the call was on the host already";

impl Ladder {
    /// The options of the attempt on the host.
    ///
    /// # Errors
    ///
    /// The reason why it cannot be.
    pub fn host_attempt<'py>(&self, call: &Call<'_, 'py>) -> Result<AttemptOptions<'py>, String> {
        let (py, options) = (call.py, &call.definition.options);
        let function = options.host.as_ref().map(|host| host.bind(py).clone());
        let destination = match options.input.memory {
            Memory::Accelerator => return self.accelerator_attempt(call, function),
            Memory::Either => {
                if self.is_on_host(py, options.input)? && function.is_none() {
                    return Err(ALREADY_ON_HOST.to_owned());
                }
                let (framework, placement) = (options.input, Placement::On(Device::Host));
                Some(Destination { framework, placement })
            }
            Memory::Host => {
                if options.execution.memory == Memory::Host && function.is_none() {
                    return Err(ALREADY_ON_HOST.to_owned());
                }
                None
            }
        };
        let scope = host_scope(py, options.execution).map_err(|error| first_line(py, &error))?;
        Ok(AttemptOptions { destination, function, scope, on_host: true })
    }

    /// Returns whether a call with arrays of a framework that has host memory used it.
    fn is_on_host(&self, py: Python<'_>, input: &'static Framework) -> Result<bool, String> {
        let loaded = loaded::load(py, input).map_err(|error| first_line(py, &error.into()))?;
        Ok(loaded.accelerators() == 0 || self.device == Some(Device::Host))
    }

    /// The options of the attempt if the framework has no host memory: NumPy arrays and the
    /// function `host`, or a copy of the function for the host modules of the framework; else an
    /// accelerator that is the processor.
    fn accelerator_attempt<'py>(
        &self,
        call: &Call<'_, 'py>,
        host: Option<Bound<'py, PyAny>>,
    ) -> Result<AttemptOptions<'py>, String> {
        let (py, options) = (call.py, &call.definition.options);
        let function = match host {
            None if !options.execution.host_modules.is_empty() => {
                let function = call.definition.function.bind(py);
                Some(copy_for_host(function, options.execution)?)
            }
            host => host,
        };
        let (framework, placement) = match function {
            Some(_) => (MemoryType::Numpy.framework(), Placement::Auto),
            None => {
                let device = processor(py, options.input, self.device);
                let Some(index) = device.map_err(|error| first_line(py, &error))? else {
                    let title = options.input.title;
                    return Err(format!("{title} has no other device that is a processor"));
                };
                (options.input, Placement::On(Device::Accelerator(index)))
            }
        };
        let destination = Some(Destination { framework, placement });
        Ok(AttemptOptions { destination, function, scope: None, on_host: true })
    }
}

/// A copy of a function that refers to host modules in place of the framework's.
///
/// # Errors
///
/// The reason why there is none, in words.
fn copy_for_host<'py>(
    function: &Bound<'py, PyAny>,
    framework: &'static Framework,
) -> Result<Bound<'py, PyAny>, String> {
    let py = function.py();
    let copy = || {
        let module = Part::Ladder.get(py)?;
        module.call_method1("for_host", (function, framework.name, framework.host_modules))
    };
    let found = copy().map_err(|error| first_line(py, &error))?;
    match found.extract() {
        Ok(reason) => Err(reason),
        Err(_) => Ok(found),
    }
}

/// A context manager in which a framework creates arrays in host memory, if it has one.
pub fn host_scope<'py>(
    py: Python<'py>,
    framework: &'static Framework,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(scope) = framework.device.host_scope else { return Ok(None) };
    let loaded = loaded::load(py, framework)?;
    let Some(host) = loaded.device_object(Device::Host)? else { return Ok(None) };
    scope.call(loaded, [&host]).map(Some)
}

/// The index of an accelerator that is the processor, which OpenCL lists among the devices. The device
/// that ran out of memory does not count.
fn processor(
    py: Python<'_>,
    framework: &'static Framework,
    out_of_memory: Option<Device>,
) -> PyResult<Option<usize>> {
    let ops = &framework.device;
    let (Some(hosts), Some(at)) = (ops.hosts, ops.at) else { return Ok(None) };
    let loaded = loaded::load(py, framework)?;
    let hosts = hosts.call(loaded, [])?;
    let used = match out_of_memory {
        Some(device) => device,
        None => Device::Accelerator(loaded.current_device()?),
    };
    for index in (0..loaded.accelerators()).filter(|index| used != Device::Accelerator(*index)) {
        let device = at.call(loaded, [PyInt::new(py, index).as_any()])?;
        let is_listed = match device.getattr(arraybridge_runtime::intern!(py, "name")) {
            Ok(name) => hosts.contains(name)?,
            Err(_) => false,
        };
        if is_listed || hosts.contains(&device)? {
            return Ok(Some(index));
        }
    }
    Ok(None)
}
