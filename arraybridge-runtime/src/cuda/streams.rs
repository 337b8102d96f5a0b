//! The device and the stream on which a declared function runs.
//!
//! A thread has one CUDA stream per device. While a declared function runs, every framework that can adopt
//! a stream works on that one, so the work of CuPy, torch and Rust functions is in order without
//! synchronisation. On entry the stream waits for the streams that the frameworks were on, and on exit
//! those wait for it. They wait by events; the host does not wait.

use std::cell::RefCell;
use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyInt;

use crate::cuda::driver::ThreadStream;
use crate::framework::device::{self, Device};
use crate::framework::endpoints::Endpoints;
use crate::framework::generated::MemoryType;
use crate::framework::loaded::is_imported;
use crate::framework::loaded::{self, LoadedFramework};
use crate::framework::spec::{Framework, Streams};
use crate::interpreter::error::Result;
use crate::interpreter::shared::{Shared, call_guarded};

/// Runs `body` with a device made current, on this thread's stream of that device.
///
/// # Errors
///
/// What `body` returns or the framework raises, and `RuntimeError` if CUDA reports a failure.
pub fn with_device_and_stream<'py, T>(
    py: Python<'py>,
    loaded: &LoadedFramework,
    index: usize,
    body: impl FnOnce() -> PyResult<T>,
) -> PyResult<T> {
    with_device(py, loaded, index, || with_stream(py, index, body))
}

/// Runs `body` with a device made current.
///
/// # Errors
///
/// What `body` returns or the framework raises.
pub fn with_device<'py, T>(
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

/// A stream, and the frameworks' objects for it.
struct KnownStream {
    device: usize,
    stream: ThreadStream,
    objects: Vec<(MemoryType, Py<PyAny>)>,
}

/// The streams of this thread. They outlive the thread: frameworks remember memory by the stream on which
/// it was allocated, so a stream is never destroyed, but passed to another thread.
#[derive(Default)]
struct ThreadStreams(Vec<KnownStream>);

/// The streams of threads that have ended.
static IDLE: Mutex<Vec<KnownStream>> = Mutex::new(Vec::new());

thread_local! {
    static STREAMS: RefCell<ThreadStreams> = const { RefCell::new(ThreadStreams(Vec::new())) };
}

impl Drop for ThreadStreams {
    fn drop(&mut self) {
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        idle.append(&mut self.0);
    }
}

/// The stream of this thread that `fits`. If there is none, an idle stream is taken, or a new one is made.
fn find_or_make(
    device: usize,
    fits: impl Fn(&KnownStream) -> bool,
    make: impl FnOnce() -> Result<ThreadStream>,
) -> Result<ThreadStream> {
    let known = STREAMS.with_borrow(|streams| {
        streams.0.iter().find(|known| fits(known)).map(|known| known.stream)
    });
    if let Some(stream) = known {
        return Ok(stream);
    }
    let idle = {
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        let place = idle.iter().position(&fits);
        place.map(|place| idle.swap_remove(place))
    };
    let known = match idle {
        Some(known) => known,
        None => KnownStream { device, stream: make()?, objects: Vec::new() },
    };
    let stream = known.stream;
    STREAMS.with_borrow_mut(|streams| streams.0.push(known));
    Ok(stream)
}

/// This thread's stream of a device.
fn thread_stream(py: Python<'_>, device: usize) -> PyResult<ThreadStream> {
    let handle = handle(py, device)?;
    let fits = |known: &KnownStream| known.device == device && known.stream.handle() == handle;
    // SAFETY: the handle is that of a stream on this device, and those are never destroyed.
    Ok(find_or_make(device, fits, || unsafe { ThreadStream::from_handle(device, handle) })?)
}

/// The functions that all extension modules of a process share.
#[repr(C)]
pub struct StreamTable {
    /// Writes the handle of this thread's stream of a device; returns -1 with a Python exception.
    stream: unsafe extern "C" fn(usize, *mut usize) -> c_int,
}

/// The table in use.
pub static TABLE: Shared<StreamTable> = Shared::new(&OWN);

static OWN: StreamTable = StreamTable { stream };

/// # Safety
///
/// `handle` is valid for a write.
unsafe extern "C" fn stream(device: usize, handle: *mut usize) -> c_int {
    call_guarded(-1, |py| match own_handle(device) {
        Ok(found) => {
            // SAFETY: the pointer is valid for a write.
            unsafe { handle.write(found) };
            0
        }
        Err(error) => {
            error.restore(py);
            -1
        }
    })
}

/// The handle of this thread's stream of a device, which is the same for all extension modules. The stream
/// is never destroyed.
///
/// # Errors
///
/// `RuntimeError` if CUDA is not available or reports a failure.
pub fn handle(py: Python<'_>, device: usize) -> PyResult<usize> {
    let mut handle = 0;
    // SAFETY: the pointer is to a local variable.
    match unsafe { (TABLE.get().stream)(device, &mut handle) } {
        0 => Ok(handle),
        _ => Err(PyErr::fetch(py)),
    }
}

/// The handle of this thread's stream among those that this module made.
fn own_handle(device: usize) -> PyResult<usize> {
    let made = || ThreadStream::new(device);
    Ok(find_or_make(device, |known| known.device == device, made)?.handle())
}

/// A framework's object for this thread's stream.
fn framework_stream<'py>(
    py: Python<'py>,
    loaded: &LoadedFramework,
    streams: &Streams,
    index: usize,
    stream: ThreadStream,
    device: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let name = loaded.framework.memory_type;
    let known = STREAMS.with_borrow(|streams| {
        let known = streams.0.iter().find(|known| known.device == index)?;
        let (_, object) = known.objects.iter().find(|(other, _)| *other == name)?;
        Some(object.bind(py).clone())
    });
    if let Some(object) = known {
        return Ok(object);
    }
    let (handle, number) = (PyInt::new(py, stream.handle()), PyInt::new(py, index));
    let scope = [loaded.module(py), handle.as_any(), device, number.as_any()];
    let object = streams.wrap.call(py, scope)?;
    STREAMS.with_borrow_mut(|streams| {
        if let Some(known) = streams.0.iter_mut().find(|known| known.device == index) {
            known.objects.push((name, object.clone().unbind()));
        }
    });
    Ok(object)
}

/// The stream scope of a framework that was entered, and the stream that the framework was on before.
struct EnteredScope<'py> {
    manager: Bound<'py, PyAny>,
    previous: usize,
}

/// Runs `body` with every loaded framework on this thread's stream.
///
/// # Errors
///
/// What `body` returns or a framework raises, and `RuntimeError` if CUDA reports a failure.
pub fn with_stream<'py, T>(
    py: Python<'py>,
    index: usize,
    body: impl FnOnce() -> PyResult<T>,
) -> PyResult<T> {
    let stream = thread_stream(py, index)?;
    let mut entered = Vec::new();
    let result = match enter_all(py, index, stream, &mut entered) {
        Ok(()) => body(),
        Err(error) => Err(error),
    };
    leave_all(py, stream, entered, result)
}

fn enter_all<'py>(
    py: Python<'py>,
    index: usize,
    stream: ThreadStream,
    entered: &mut Vec<EnteredScope<'py>>,
) -> PyResult<()> {
    for framework in MemoryType::ALL.map(MemoryType::framework) {
        if let Some(streams) = &framework.stream
            && is_imported(py, framework)
        {
            enter(py, framework, streams, index, stream, entered)?;
        }
    }
    Ok(())
}

fn enter<'py>(
    py: Python<'py>,
    framework: &'static Framework,
    streams: &Streams,
    index: usize,
    stream: ThreadStream,
    entered: &mut Vec<EnteredScope<'py>>,
) -> PyResult<()> {
    let loaded = loaded::load(py, framework, Endpoints::of(framework)).map_err(PyErr::from)?;
    if index >= loaded.accelerators(py) {
        return Ok(());
    }
    let device = device::object(py, loaded, Device::Accelerator(index))?;
    let device = device.unwrap_or_else(|| py.None().into_bound(py));
    let number = PyInt::new(py, index);
    let current = streams.current.call(py, [loaded.module(py), &device, number.as_any()])?;
    let previous: usize = current.extract()?;
    if previous == stream.handle() {
        // This call is nested in that of another declared function.
        return Ok(());
    }
    if !entered.iter().any(|other| other.previous == previous) {
        // SAFETY: it is the framework's current stream of this device.
        unsafe { stream.wait_for(previous) }?;
    }
    let object = framework_stream(py, loaded, streams, index, stream, &device)?;
    let manager = streams.scope.call(py, [loaded.module(py), &object])?;
    manager.call_method0(pyo3::intern!(py, "__enter__"))?;
    entered.push(EnteredScope { manager, previous });
    Ok(())
}

/// Leaves the scopes in every case, and makes the streams that the frameworks return to wait for the work on
/// this one.
fn leave_all<'py, T>(
    py: Python<'py>,
    stream: ThreadStream,
    entered: Vec<EnteredScope<'py>>,
    result: PyResult<T>,
) -> PyResult<T> {
    let mut failure = None;
    let mut released = Vec::new();
    for EnteredScope { manager, previous } in entered.into_iter().rev() {
        let none = || py.None().into_bound(py);
        let exit = pyo3::intern!(py, "__exit__");
        if let Err(error) = manager.call_method1(exit, (none(), none(), none())) {
            failure.get_or_insert(error);
        }
        if released.contains(&previous) {
            continue;
        }
        released.push(previous);
        // SAFETY: it is a framework's stream of this device, which the framework has returned to.
        if let Err(error) = unsafe { stream.release_to(previous) } {
            failure.get_or_insert(error.into());
        }
    }
    match (result, failure) {
        (Ok(_), Some(error)) => Err(error),
        (result, _) => result,
    }
}
