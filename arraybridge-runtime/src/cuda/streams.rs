//! The device and the stream that a declared function runs on.
//!
//! A thread has one CUDA stream for each device, and every framework that can adopt it does while a
//! declared function runs: what its CuPy, torch and Rust functions do is in order without a
//! synchronise. When the stream is entered it waits for the stream that each framework was on, and
//! when it is left they wait for it, by events; the host never waits.

use std::cell::RefCell;
use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyInt;

use crate::cuda::driver::Lane;
use crate::framework::device::{self, Device};
use crate::framework::endpoints::Endpoints;
use crate::framework::generated::MemoryType;
use crate::framework::loaded::is_imported;
use crate::framework::loaded::{self, LoadedFramework};
use crate::framework::spec::Streams;
use crate::interpreter::error::Result;
use crate::interpreter::shared::{Shared, call_guarded};

/// Runs `body` with a device made current, on this thread's stream of that device.
///
/// # Errors
///
/// What `body` gives, what the framework raises, and `RuntimeError` for a failure of CUDA.
pub fn on_device<'py, T>(
    py: Python<'py>,
    loaded: &LoadedFramework,
    index: usize,
    body: impl FnOnce() -> PyResult<T>,
) -> PyResult<T> {
    made_current(py, loaded, index, || on_lane(py, index, body))
}

/// Runs `body` with a device made current.
pub fn made_current<'py, T>(
    py: Python<'py>,
    loaded: &LoadedFramework,
    index: usize,
    body: impl FnOnce() -> PyResult<T>,
) -> PyResult<T> {
    if device::current(py, loaded)? == index {
        return body();
    }
    device::within(py, loaded, Device::Accelerator(index), |_| body())
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

/// What the modules of a process have in common of the streams.
#[repr(C)]
pub struct StreamTable {
    /// The handle of this thread's stream of a device; -1 with a Python exception.
    stream: unsafe extern "C" fn(usize, *mut usize) -> c_int,
}

/// The table in use.
pub static TABLE: Shared<StreamTable> = Shared::new(&OWN);

static OWN: StreamTable = StreamTable { stream };

unsafe extern "C" fn stream(device: usize, handle: *mut usize) -> c_int {
    call_guarded(-1, |py| match own_handle(device) {
        Ok(found) => {
            // SAFETY: the pointer is to a variable of the caller's.
            unsafe { handle.write(found) };
            0
        }
        Err(error) => {
            error.restore(py);
            -1
        }
    })
}

/// The handle of this thread's stream of a device, which all extension modules share. The stream is
/// never destroyed.
///
/// # Errors
///
/// `RuntimeError` when there is no CUDA, or CUDA reports a failure.
pub fn handle(py: Python<'_>, index: usize) -> PyResult<usize> {
    let mut handle = 0;
    // SAFETY: the handle is written to, or an exception is set.
    match unsafe { (TABLE.get().stream)(index, &mut handle) } {
        0 => Ok(handle),
        _ => Err(PyErr::fetch(py)),
    }
}

/// The same of the streams that this module has made.
fn own_handle(index: usize) -> PyResult<usize> {
    Ok(adopted(index, |device, _| device == index, || Lane::new(index))?.handle())
}

/// A framework's object for this thread's stream.
fn object<'py>(
    py: Python<'py>,
    loaded: &LoadedFramework,
    streams: &Streams,
    index: usize,
    lane: Lane,
    device: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let name = loaded.framework.memory_type;
    let known = MINE.with_borrow(|mine| {
        let (_, adopted) = mine.0.iter().find(|(device, _)| *device == index)?;
        let (_, object) = adopted.objects.iter().find(|(other, _)| *other == name)?;
        Some(object.bind(py).clone())
    });
    if let Some(object) = known {
        return Ok(object);
    }
    let (handle, number) = (PyInt::new(py, lane.handle()), PyInt::new(py, index));
    let scope = [loaded.module(py), handle.as_any(), device, number.as_any()];
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
pub fn on_lane<'py, T>(
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
        if !is_imported(py, framework) {
            continue;
        }
        let loaded = loaded::load(py, framework, Endpoints::of(framework)).map_err(PyErr::from)?;
        if index >= loaded.accelerators(py) {
            continue;
        }
        let device = device::object(py, loaded, Device::Accelerator(index))?;
        let device = device.unwrap_or_else(|| py.None().into_bound(py));
        let number = PyInt::new(py, index);
        let current = streams.current.call(py, [loaded.module(py), &device, number.as_any()])?;
        let before: usize = current.extract()?;
        if before == lane.handle() {
            // A declared function that was called by another one.
            continue;
        }
        if !entered.iter().any(|other| other.before == before) {
            lane.wait_for(before)?;
        }
        let stream = object(py, loaded, streams, index, lane, &device)?;
        let manager = streams.scope.call(py, [loaded.module(py), &stream])?;
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
