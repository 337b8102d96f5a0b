//! The way out of an exhausted memory, rung by rung.
//!
//! A call whose framework ran out of memory is made again: with the caches of every framework given
//! back, then part by part, then on the host. What was tried stands in the notes of the exception
//! that is raised in the end, which is always the first one.

mod release;
mod split;
mod substitute;

use std::cell::Cell;
use std::time::Duration;

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyString};

use crate::convert::record::Record;
use crate::convert::trace;
use crate::declared::arguments::{Aim, Slots};
use crate::declared::scope;
use crate::declared::{Call, Failed, Mode};
use crate::framework::cleanup;
use crate::framework::device::{self, Device, Placement};
use crate::framework::endpoints::Endpoints;
use crate::framework::generated::MemoryType;
use crate::framework::loaded;
use crate::framework::oom;
use crate::framework::spec::{Framework, Memory};
use crate::interpreter::error::{Error, Result, first_line, warning_class};
use crate::memory::view::Dims;

/// A way to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rung {
    /// With the caches of every framework given back.
    Clear,
    /// Part by part.
    Split,
    /// In host memory.
    Host,
}

impl Rung {
    /// Every rung, in order.
    pub const ALL: [Rung; 3] = [Rung::Clear, Rung::Split, Rung::Host];

    /// The name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            Rung::Clear => "clear",
            Rung::Split => "split",
            Rung::Host => "host",
        }
    }

    /// Reads `on_oom`: one name or several.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] for an unknown name.
    pub fn read(names: &Bound<'_, PyAny>) -> Result<Vec<Rung>> {
        let names: Vec<String> = match names.cast::<PyString>() {
            Ok(name) => vec![name.to_string()],
            Err(_) => names.extract().map_err(|_| {
                Error::Type("on_oom must be a name or a sequence of names".to_owned())
            })?,
        };
        let read = |name: String| {
            Rung::ALL.into_iter().find(|rung| rung.name() == name).ok_or_else(|| {
                let known = Rung::ALL.map(Rung::name).join(", ");
                Error::Value(format!("unknown rung {name:?} in on_oom; known are {known}"))
            })
        };
        names.into_iter().map(read).collect()
    }
}

/// Why a rung gave no result.
pub enum Stop {
    /// It is no way for this call.
    Skipped(String),
    /// The function failed on it.
    Failed(Failed),
}

impl<E: Into<Failed>> From<E> for Stop {
    fn from(error: E) -> Stop {
        Stop::Failed(error.into())
    }
}

thread_local! {
    /// Whether this thread is on a ladder. A declared function that is called from a retry does not
    /// climb one of its own: it did so before, and the tries would multiply with the depth.
    static CLIMBING: Cell<bool> = const { Cell::new(false) };
}

/// Held while a thread is on a ladder.
pub struct Climbing;

impl Climbing {
    /// Steps on a ladder, unless the thread is on one.
    pub fn start() -> Option<Climbing> {
        (!CLIMBING.replace(true)).then(|| Climbing)
    }
}

impl Drop for Climbing {
    fn drop(&mut self) {
        CLIMBING.set(false);
    }
}

/// Tries again, if the error says that memory ran out.
///
/// # Errors
///
/// The first attempt's error.
#[cold]
pub fn climb<'py>(
    call: &Call<'_, 'py>,
    slots: &Slots<'py>,
    failed: Failed,
) -> PyResult<Bound<'py, PyAny>> {
    let py = call.py;
    let Some(mut ladder) = Ladder::of(call, slots, &failed) else { return Err(failed.error) };
    let Some(_climbing) = Climbing::start() else { return Err(failed.error) };
    let error = failed.error;
    while let Some(rung) = ladder.next(py, &error) {
        let tried = match rung {
            Rung::Clear => ladder.cleared(call, slots),
            Rung::Split => split::split(&ladder, call, slots),
            Rung::Host => ladder.on_host(call, slots),
        };
        match tried {
            Ok(result) => {
                ladder.reached(call, rung, &error)?;
                return Ok(result);
            }
            Err(stop) => ladder.note(py, &error, rung, stop)?,
        }
    }
    Err(error)
}

/// Calls a function, and again with all caches given back when a framework's memory runs out.
///
/// # Errors
///
/// What the function raises last.
pub fn retry<'py>(
    function: &Bound<'py, PyAny>,
    framework: &'static Framework,
    most: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let py = function.py();
    let mut done = function.call0();
    for _ in 0..most {
        let Err(error) = &done else { break };
        let exhausted = oom::framework_of(py, error);
        if exhausted.is_none_or(|found| found.memory_type != framework.memory_type) {
            break;
        }
        release::references(py, error);
        cleanup::clear_all(py, None).map_err(PyErr::from)?;
        done = function.call0();
    }
    done
}

/// The rungs that are left for a call.
pub struct Ladder {
    exhausted: &'static Framework,
    device: Option<Device>,
    rungs: std::vec::IntoIter<Rung>,
}

impl Ladder {
    /// The ladder for a failed attempt; `None` where the error is to be raised as it is.
    pub fn of<'py>(call: &Call<'_, 'py>, slots: &Slots<'py>, failed: &Failed) -> Option<Ladder> {
        let options = &call.core.options;
        if options.ladder.is_empty() {
            return None;
        }
        let exhausted = oom::framework_of(call.py, &failed.error)?;
        if failed.written {
            let text = "arraybridge did not try again: the function had written to an argument";
            let _ = failed.error.add_note(call.py, text);
            return None;
        }
        if slots.iter().any(|slot| slot.is_of(options.input) && !slot.is_concrete()) {
            return None;
        }
        let device = scope::device_of(call.py, options.input, slots, options).ok().flatten();
        Some(Ladder { exhausted, device, rungs: options.ladder.clone().into_iter() })
    }

    /// The next rung. What the failed attempt held is let go before.
    pub fn next(&mut self, py: Python<'_>, error: &PyErr) -> Option<Rung> {
        let rung = self.rungs.next()?;
        release::references(py, error);
        Some(rung)
    }

    /// Collects what is not referred to any more, and gives the caches of every loaded framework
    /// back.
    pub fn clear(&self, py: Python<'_>) {
        let device = match self.device {
            Some(Device::Accelerator(index)) => Some(index),
            _ => None,
        };
        // A framework that cannot clear its caches may still have room after the others did.
        let _ = cleanup::clear_all(py, device);
    }

    fn cleared<'py>(
        &self,
        call: &Call<'_, 'py>,
        slots: &Slots<'py>,
    ) -> Result<Bound<'py, PyAny>, Stop> {
        self.clear(call.py);
        Ok(call.attempt(slots, &Mode::default())?.0)
    }

    fn on_host<'py>(
        &self,
        call: &Call<'_, 'py>,
        slots: &Slots<'py>,
    ) -> Result<Bound<'py, PyAny>, Stop> {
        let mode = self.host_mode(call).map_err(Stop::Skipped)?;
        self.clear(call.py);
        Ok(call.attempt(slots, &mode)?.0)
    }

    /// How the call is made on the host; if it cannot be, why.
    ///
    /// # Errors
    ///
    /// The reason in words.
    pub fn host_mode<'py>(&self, call: &Call<'_, 'py>) -> Result<Mode<'py>, String> {
        let (py, options) = (call.py, &call.core.options);
        let (input, execution) = (options.input, options.execution);
        let function = options.host.as_ref().map(|host| host.bind(py).clone());
        let numpy = Aim { target: MemoryType::Numpy.framework(), placement: Placement::Auto };
        let failed = |error: PyErr| first_line(py, &error);
        match input.memory {
            Memory::Either => {
                let loaded = loaded::load(py, input, Endpoints::of(input));
                let loaded = loaded.map_err(|error| failed(error.into()))?;
                let there = loaded.accelerators(py) == 0 || self.device == Some(Device::Host);
                if there && function.is_none() {
                    return Err("the call was on the host already".to_owned());
                }
                let aim = Aim { target: input, placement: Placement::On(Device::Host) };
                let scope = host_scope(py, execution).map_err(failed)?;
                Ok(Mode { aim: Some(aim), function, scope })
            }
            Memory::Host if execution.memory == Memory::Host && function.is_none() => {
                Err("the call was on the host already".to_owned())
            }
            Memory::Host => {
                let scope = host_scope(py, execution).map_err(failed)?;
                Ok(Mode { aim: None, function, scope })
            }
            Memory::Accelerator if function.is_some() => {
                Ok(Mode { aim: Some(numpy), function, scope: None })
            }
            Memory::Accelerator if !execution.host_modules.is_empty() => {
                let function = call.core.function.bind(py);
                let function = Some(substitute::on_host(function, execution)?);
                Ok(Mode { aim: Some(numpy), function, scope: None })
            }
            Memory::Accelerator => {
                let device = host_device(py, input, self.device).map_err(failed)?;
                let Some(index) = device else {
                    let title = input.title;
                    return Err(format!("{title} has no other device that is a processor"));
                };
                let placement = Placement::On(Device::Accelerator(index));
                let aim = Some(Aim { target: input, placement });
                Ok(Mode { aim, function: None, scope: None })
            }
        }
    }

    /// Says which rung held.
    ///
    /// # Errors
    ///
    /// The warning, where the user's filters make it an exception.
    pub fn reached(&self, call: &Call<'_, '_>, rung: Rung, error: &PyErr) -> PyResult<()> {
        let (py, framework) = (call.py, call.core.options.execution);
        if trace::is_tracing() {
            let device = match rung {
                Rung::Host => Device::Host,
                _ => self.device.unwrap_or(Device::Host),
            };
            let record = Record {
                source: framework.name,
                target: framework.name,
                route: "retry",
                via: String::new(),
                how: rung.name(),
                why: Some("memory ran out"),
                dtype: String::new(),
                nbytes: 0,
                shape: Dims::new(),
                device: device.to_string(),
                ns: None,
            };
            trace::push(py, record, Duration::ZERO);
        }
        if rung != Rung::Host {
            return Ok(());
        }
        let text = format!(
            "{} ran out of {} memory and was called again on the host ({})",
            call.core.name,
            self.exhausted.title,
            first_line(py, error)
        );
        let text = std::ffi::CString::new(text).unwrap_or_default();
        PyErr::warn(py, &warning_class(py, "OomFallbackWarning"), &text, 1).inspect_err(|raised| {
            raised.set_cause(py, Some(error.clone_ref(py)));
        })
    }

    /// Writes to the exception what a rung came to; an interrupt is raised in its place.
    ///
    /// # Errors
    ///
    /// What is no `Exception`.
    pub fn note(&mut self, py: Python<'_>, error: &PyErr, rung: Rung, stop: Stop) -> PyResult<()> {
        let rung = rung.name();
        let failed = match stop {
            Stop::Failed(failed) => failed,
            Stop::Skipped(why) => {
                return error.add_note(py, format!("arraybridge: no {rung}: {why}"));
            }
        };
        if !failed.error.is_instance_of::<PyException>(py) {
            return Err(failed.error);
        }
        let line = first_line(py, &failed.error);
        release::references(py, &failed.error);
        error.add_note(py, format!("arraybridge tried {rung}: {line}"))?;
        if failed.written {
            self.rungs = Vec::new().into_iter();
            self.stop(py, error)?;
        }
        Ok(())
    }

    /// Writes to the exception that an attempt changed what the next one would be given.
    ///
    /// # Errors
    ///
    /// What Python raises.
    pub fn stop(&self, py: Python<'_>, error: &PyErr) -> PyResult<()> {
        error.add_note(py, "arraybridge stopped: the function had written to an argument")
    }
}

/// A context manager that makes the host the place where a framework makes new arrays.
pub fn host_scope<'py>(
    py: Python<'py>,
    framework: &'static Framework,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(scope) = framework.device.host_scope else { return Ok(None) };
    let loaded = loaded::load(py, framework, Endpoints::of(framework)).map_err(PyErr::from)?;
    let Some(host) = device::object(py, loaded, Device::Host)? else { return Ok(None) };
    scope.call(py, [loaded.module(py), &host]).map(Some)
}

/// The index of an accelerator that is the processor under another name, as OpenCL has it.
fn host_device(
    py: Python<'_>,
    framework: &'static Framework,
    exhausted: Option<Device>,
) -> PyResult<Option<usize>> {
    let ops = &framework.device;
    let (Some(hosts), Some(at)) = (ops.hosts, ops.at) else { return Ok(None) };
    let loaded = loaded::load(py, framework, Endpoints::of(framework)).map_err(PyErr::from)?;
    let hosts = hosts.call(py, [loaded.module(py)])?;
    let used = match exhausted {
        Some(device) => device,
        None => Device::Accelerator(device::current(py, loaded)?),
    };
    for index in (0..loaded.accelerators(py)).filter(|index| used != Device::Accelerator(*index)) {
        let device = at.call(py, [loaded.module(py), PyInt::new(py, index).as_any()])?;
        let named = match device.getattr(pyo3::intern!(py, "name")) {
            Ok(name) => hosts.contains(name)?,
            Err(_) => false,
        };
        if named || hosts.contains(&device)? {
            return Ok(Some(index));
        }
    }
    Ok(None)
}
