//! The device and the stream that a declared function runs on.
//!
//! A thread has one CUDA stream for each device, and every framework that can adopt it does while a
//! declared function runs: what its CuPy, torch and Rust functions do is in order without a
//! synchronise. When the stream is entered it waits for the stream that each framework was on, and
//! when it is left they wait for it, by events; the host never waits.

use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyInt;

use crate::cleanup::is_loaded;
use crate::cuda::{self, Lane};
use crate::declared::Options;
use crate::declared::arguments::{self, Slots};
use crate::device::{self, Device, Placement};
use crate::error::Result;
use crate::generated::MemoryType;
use crate::live::{self, Live};
use crate::shared;
use crate::spec::{Framework, Memory, Streams};

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
    let live = || live::live(py, framework, live::ends_of(framework)).map_err(PyErr::from);
    let index = match device {
        Some(Device::Accelerator(index)) => index,
        // A function without arrays makes its own, on the current device.
        None if slots.is_empty() && may_stream(py, framework) => match device::current(py, live()?)
        {
            Ok(index) => index,
            // There is no device, which the function will find out itself if it needs one.
            Err(_) => return body(),
        },
        _ => return body(),
    };
    let streamed = || match may_stream(py, framework) && slots.iter().all(|s| s.is_concrete()) {
        true => on_lane(py, index, body),
        false => body(),
    };
    made_current(py, live()?, index, streamed)
}

/// As [`within`], for a function that works on the stream itself, whatever its framework does.
///
/// # Errors
///
/// As [`within`].
pub fn on_device<'py, T>(
    py: Python<'py>,
    live: &Live,
    index: usize,
    body: impl FnOnce() -> PyResult<T>,
) -> PyResult<T> {
    made_current(py, live, index, || on_lane(py, index, body))
}

/// Runs `body` with a device made current.
fn made_current<'py, T>(
    py: Python<'py>,
    live: &Live,
    index: usize,
    body: impl FnOnce() -> PyResult<T>,
) -> PyResult<T> {
    if device::current(py, live)? == index {
        return body();
    }
    device::within(py, live, Device::Accelerator(index), |_| body())
}

fn may_stream(py: Python<'_>, framework: &Framework) -> bool {
    framework.stream.is_some() && cuda::is_present() && is_loaded(py, framework)
}

/// A stream of a thread, as the frameworks know it.
struct Adopted {
    lane: Lane,
    objects: Vec<(MemoryType, Py<PyAny>)>,
}

/// The streams of this thread by device. They outlive it: frameworks remember memory by the stream
/// that it was allocated on, so that a stream is never destroyed, but handed to the next thread.
#[derive(Default)]
struct Mine(Vec<(usize, Adopted)>);

static FREE: Mutex<Vec<(usize, Adopted)>> = Mutex::new(Vec::new());

thread_local! {
    static MINE: RefCell<Mine> = const { RefCell::new(Mine(Vec::new())) };
}

impl Drop for Mine {
    fn drop(&mut self) {
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        free.append(&mut self.0);
    }
}

/// The stream of this thread that fits. If there is none it is one that a thread has left, or a new
/// one.
fn adopted(
    index: usize,
    fits: impl Fn(usize, Lane) -> bool,
    make: impl FnOnce() -> Result<Lane>,
) -> Result<Lane> {
    let known = MINE.with_borrow(|mine| {
        let mut lanes = mine.0.iter().map(|(device, adopted)| (*device, adopted.lane));
        lanes.find(|(device, lane)| fits(*device, *lane)).map(|(_, lane)| lane)
    });
    if let Some(lane) = known {
        return Ok(lane);
    }
    let left = {
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        let place = free.iter().position(|(device, adopted)| fits(*device, adopted.lane));
        place.map(|place| free.swap_remove(place).1)
    };
    let adopted = match left {
        Some(adopted) => adopted,
        None => Adopted { lane: make()?, objects: Vec::new() },
    };
    let lane = adopted.lane;
    MINE.with_borrow_mut(|mine| mine.0.push((index, adopted)));
    Ok(lane)
}

/// This thread's stream of a device.
fn lane(py: Python<'_>, index: usize) -> PyResult<Lane> {
    let handle = handle(py, index)?;
    let is_it = |device, lane: Lane| device == index && lane.handle() == handle;
    // SAFETY: it is a stream of this device, and those are never destroyed.
    Ok(adopted(index, is_it, || unsafe { Lane::over(index, handle) })?)
}

/// The handle of this thread's stream of a device, which all extension modules share. The stream is
/// never destroyed.
///
/// # Errors
///
/// `RuntimeError` when there is no CUDA, or CUDA reports a failure.
pub fn handle(py: Python<'_>, index: usize) -> PyResult<usize> {
    shared::table().stream(py, index)
}

/// The same of the streams that this module has made.
pub(crate) fn own_handle(index: usize) -> PyResult<usize> {
    Ok(adopted(index, |device, _| device == index, || Lane::new(index))?.handle())
}

/// A framework's object for this thread's stream.
fn object<'py>(
    py: Python<'py>,
    live: &Live,
    streams: &Streams,
    index: usize,
    lane: Lane,
    device: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let name = live.framework.memory_type;
    let known = MINE.with_borrow(|mine| {
        let (_, adopted) = mine.0.iter().find(|(device, _)| *device == index)?;
        let (_, object) = adopted.objects.iter().find(|(other, _)| *other == name)?;
        Some(object.bind(py).clone())
    });
    if let Some(object) = known {
        return Ok(object);
    }
    let (handle, number) = (PyInt::new(py, lane.handle()), PyInt::new(py, index));
    let scope = [live.module(py), handle.as_any(), device, number.as_any()];
    let object = streams.wrap.call(py, scope)?;
    MINE.with_borrow_mut(|mine| {
        if let Some((_, adopted)) = mine.0.iter_mut().find(|(device, _)| *device == index) {
            adopted.objects.push((name, object.clone().unbind()));
        }
    });
    Ok(object)
}

/// Frameworks that were brought to the stream, and the stream that each was on.
struct Entered<'py> {
    manager: Bound<'py, PyAny>,
    before: usize,
}

/// Runs `body` with every loaded framework on this thread's stream.
fn on_lane<'py, T>(
    py: Python<'py>,
    index: usize,
    body: impl FnOnce() -> PyResult<T>,
) -> PyResult<T> {
    let lane = lane(py, index)?;
    let mut entered = Vec::new();
    let done = match enter(py, index, lane, &mut entered) {
        Ok(()) => body(),
        Err(error) => Err(error),
    };
    leave(py, lane, entered, done)
}

fn enter<'py>(
    py: Python<'py>,
    index: usize,
    lane: Lane,
    entered: &mut Vec<Entered<'py>>,
) -> PyResult<()> {
    for framework in MemoryType::ALL.map(MemoryType::framework) {
        let Some(streams) = &framework.stream else { continue };
        if !is_loaded(py, framework) {
            continue;
        }
        let live = live::live(py, framework, live::ends_of(framework)).map_err(PyErr::from)?;
        if index >= live.accelerators(py) {
            continue;
        }
        let device = device::object(py, live, Device::Accelerator(index))?;
        let device = device.unwrap_or_else(|| py.None().into_bound(py));
        let number = PyInt::new(py, index);
        let current = streams.current.call(py, [live.module(py), &device, number.as_any()])?;
        let before: usize = current.extract()?;
        if before == lane.handle() {
            // A declared function that was called by another one.
            continue;
        }
        if !entered.iter().any(|other| other.before == before) {
            lane.wait_for(before)?;
        }
        let stream = object(py, live, streams, index, lane, &device)?;
        let manager = streams.scope.call(py, [live.module(py), &stream])?;
        manager.call_method0(pyo3::intern!(py, "__enter__"))?;
        entered.push(Entered { manager, before });
    }
    Ok(())
}

/// Leaves the stream, whatever happened on it: the streams that the frameworks return to wait for
/// what was begun on it.
fn leave<'py, T>(
    py: Python<'py>,
    lane: Lane,
    entered: Vec<Entered<'py>>,
    done: PyResult<T>,
) -> PyResult<T> {
    let mut failed = None;
    let mut told = Vec::new();
    for Entered { manager, before } in entered.into_iter().rev() {
        let none = || py.None().into_bound(py);
        let exit = pyo3::intern!(py, "__exit__");
        if let Err(error) = manager.call_method1(exit, (none(), none(), none())) {
            failed.get_or_insert(error);
        }
        if told.contains(&before) {
            continue;
        }
        told.push(before);
        if let Err(error) = lane.hand_over_to(before) {
            failed.get_or_insert(error.into());
        }
    }
    match (done, failed) {
        (Ok(_), Some(error)) => Err(error),
        (done, _) => done,
    }
}
