//! `arraybridge.thread_stream`: a CUDA stream of a thread's own, for all frameworks.

use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ThreadId};

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyInt;

use crate::cuda::streams::{self, Current};
use crate::framework::device::Device;
use crate::framework::loaded::{self, Loaded, is_imported};
use crate::framework::registry;
use crate::framework::spec::Streams;
use crate::interpreter::detached::DetachedRef;
use crate::interpreter::panic::memory_errors;
use crate::interpreter::{interrupt, park};
use arraybridge_tensor::cuda::driver;

/// A stream that belongs to one thread.
///
/// It is never destroyed, since frameworks remember memory by the stream on which it was allocated. When
/// its thread ends, another thread gets it.
pub(super) struct OwnStream {
    index: usize,
    handle: usize,
    /// The streams that the frameworks returned to from it. Memory of its pools may be in use there, so it
    /// waits for them before the pools reuse that memory.
    left_to: Vec<(usize, DetachedRef)>,
}

/// The streams of threads that have ended.
pub(super) static IDLE: Mutex<Vec<OwnStream>> = Mutex::new(Vec::new());

/// The streams of a thread.
struct OwnStreams(Vec<OwnStream>);

thread_local! {
    static STREAMS: RefCell<OwnStreams> = const { RefCell::new(OwnStreams(Vec::new())) };
}

impl Drop for OwnStreams {
    fn drop(&mut self) {
        IDLE.lock().unwrap_or_else(PoisonError::into_inner).append(&mut self.0);
    }
}

/// Calls `look` with this thread's stream of a device. If there is none, an idle stream is taken, or a new
/// one is made.
fn with_own<T>(index: usize, look: impl FnOnce(&mut OwnStream) -> T) -> PyResult<T> {
    driver::check_not_lost()?;
    let known = STREAMS.with_borrow(|streams| streams.0.iter().any(|own| own.index == index));
    if !known {
        let idle = {
            let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
            let place = idle.iter().position(|own| own.index == index);
            place.map(|place| idle.swap_remove(place))
        };
        let own = match idle {
            Some(own) => own,
            None => OwnStream { index, handle: driver::new_stream(index)?, left_to: Vec::new() },
        };
        STREAMS.with_borrow_mut(|streams| streams.0.push(own));
    }
    STREAMS.with_borrow_mut(|streams| {
        let own = streams.0.iter_mut().find(|own| own.index == index);
        Ok(look(own.expect("the stream was found or made")))
    })
}

/// The scopes of a framework that were entered, and the stream that the framework was on before.
struct EnteredFramework {
    stream: Py<PyAny>,
    device: Option<Py<PyAny>>,
    before: usize,
    owner: DetachedRef,
}

/// One `with` block of a thread.
struct Visit {
    thread: ThreadId,
    entered: Vec<EnteredFramework>,
}

/// A CUDA stream of the calling thread's own, as a context manager.
///
/// Inside the block, every imported framework that can adopt a stream (CuPy and torch) works on it: their
/// functions, those that are declared for them, and Rust functions are in order with each other, and not
/// with the work of other threads. The stream first waits for the streams that the frameworks were on, and
/// these wait for it when the block is left. The host never waits.
///
/// A thread has one such stream for each device. A framework that fails when it is asked for its stream is
/// left out.
///
/// Parameters
/// ----------
/// device : int
///     The index of the CUDA device, which is also made the current one.
///
/// Raises
/// ------
/// ValueError
///     If the index is negative.
/// RuntimeError
///     When the block is entered, if the CUDA driver cannot be loaded, or reports a failure.
///
/// Examples
/// --------
/// >>> import arraybridge
/// >>> with arraybridge.thread_stream(device=0):  # doctest: +SKIP
/// ...     result = denoise(image)
#[pyclass(frozen, module = "arraybridge", name = "thread_stream")]
pub struct ThreadStream {
    index: usize,
    visits: Mutex<Vec<Visit>>,
}

#[pymethods]
impl ThreadStream {
    #[new]
    #[pyo3(signature = (device=0))]
    #[memory_errors]
    fn new(device: i64) -> PyResult<ThreadStream> {
        let index = usize::try_from(device).map_err(|_| {
            PyValueError::new_err(format!("device must not be negative, not {device}"))
        })?;
        Ok(ThreadStream { index, visits: Mutex::new(Vec::new()) })
    }

    /// The version of the protocol, and the handle of the calling thread's stream.
    #[memory_errors]
    fn __cuda_stream__(&self) -> PyResult<(u32, usize)> {
        with_own(self.index, |own| (0, own.handle))
    }

    #[memory_errors]
    fn __enter__<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        let (py, index) = (slf.py(), slf.get().index);
        park::rather_than_end(py);
        let (handle, left_to) = with_own(index, |own| {
            let left_to: Vec<usize> = own.left_to.iter().map(|(handle, _)| *handle).collect();
            (own.handle, left_to)
        })?;
        for other in left_to {
            // SAFETY: both streams are of this device; the owners of the others are kept.
            unsafe { driver::order(index, other, handle) }?;
        }
        let mut entered = Vec::new();
        for framework in registry::all() {
            let Some(ops) = framework.stream.as_ref().filter(|_| is_imported(py, framework)) else {
                continue;
            };
            let loaded = loaded::load(py, framework);
            match loaded.map_err(PyErr::from).and_then(|loaded| enter(&slf, loaded, ops, handle)) {
                Ok(visit) => entered.extend(visit),
                // It is left out, so that the others can be used.
                Err(error) => interrupt::defer(py, error),
            }
        }
        let visit = Visit { thread: thread::current().id(), entered };
        slf.get().visits.lock().unwrap_or_else(PoisonError::into_inner).push(visit);
        Ok(slf)
    }

    #[pyo3(signature = (*_error))]
    #[memory_errors]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, PyAny>) -> PyResult<bool> {
        let here = thread::current().id();
        let visit = {
            let mut visits = self.visits.lock().unwrap_or_else(PoisonError::into_inner);
            let place = visits.iter().rposition(|visit| visit.thread == here);
            place.map(|place| visits.remove(place))
        };
        let Some(visit) = visit else {
            let text = "thread_stream is left on another thread than the one that entered it";
            return Err(PyRuntimeError::new_err(text));
        };
        let mut failed = Ok(());
        for entered in visit.entered.into_iter().rev() {
            let left = leave(py, self.index, entered);
            failed = failed.and(left);
        }
        failed.map(|()| false)
    }
}

/// Enters a stream in a framework; `None` if the framework does not have the device or has no streams.
fn enter(
    slf: &Bound<'_, ThreadStream>,
    loaded: Loaded<'_>,
    ops: &Streams,
    handle: usize,
) -> PyResult<Option<EnteredFramework>> {
    let (py, index) = (slf.py(), slf.get().index);
    if index >= loaded.accelerators() {
        return Ok(None);
    }
    let none = || py.None().into_bound(py);
    let device = loaded.device_object(Device::Accelerator(index))?.unwrap_or_else(none);
    let scope = loaded.framework.device.scope;
    // CuPy refuses a stream while another device is current.
    let scope = scope.map(|scope| scope.call(loaded, [&device])).transpose()?;
    if let Some(scope) = &scope {
        scope.call_method0(crate::intern!(py, "__enter__"))?;
    }
    match (enter_stream(slf, (loaded, ops), handle, &device), scope) {
        (Ok(Some(entered)), scope) => {
            Ok(Some(EnteredFramework { device: scope.map(Bound::unbind), ..entered }))
        }
        (failed, Some(scope)) => {
            exit(&scope)?;
            failed
        }
        (failed, None) => failed,
    }
}

/// Does what [`enter`] does, with the device current.
fn enter_stream(
    slf: &Bound<'_, ThreadStream>,
    (loaded, ops): (Loaded<'_>, &Streams),
    handle: usize,
    device: &Bound<'_, PyAny>,
) -> PyResult<Option<EnteredFramework>> {
    let (py, index) = (slf.py(), slf.get().index);
    let Some(Current { handle: before, object }) = streams::current(loaded, index)? else {
        return Ok(None);
    };
    // SAFETY: both streams are of this device; the framework's object is held, and the thread's own stream
    // is never destroyed.
    unsafe { driver::order(index, before, handle) }?;
    let (number, number_of_device) = (PyInt::new(py, handle), PyInt::new(py, index));
    let names = [number.as_any(), device, number_of_device.as_any(), slf.as_any()];
    let stream = ops.wrap.call(loaded, names)?;
    let stream = ops.scope.call(loaded, [&stream])?;
    stream.call_method0(crate::intern!(py, "__enter__"))?;
    Ok(Some(EnteredFramework {
        stream: stream.unbind(),
        device: None,
        before,
        owner: object.into(),
    }))
}

/// Returns a framework to the stream that it was on before, which waits for the thread's own.
fn leave(py: Python<'_>, index: usize, entered: EnteredFramework) -> PyResult<()> {
    let EnteredFramework { stream, device, before, owner, .. } = entered;
    let left = exit(stream.bind(py));
    let left = left.and(device.map_or(Ok(()), |device| exit(device.bind(py))));
    let handle = with_own(index, |own| own.handle)?;
    // SAFETY: both streams are of this device; the owner is held, and the thread's own stream is never
    // destroyed.
    unsafe { driver::order(index, handle, before) }?;
    let unused = with_own(index, |own| {
        let known = own.left_to.iter().any(|(other, _)| *other == before);
        if known {
            return Some(owner);
        }
        own.left_to.push((before, owner));
        None
    })?;
    drop(unused);
    left
}

fn exit(scope: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = scope.py();
    let none = || py.None().into_bound(py);
    let exit = crate::intern!(py, "__exit__");
    scope.call_method1(exit, (none(), none(), none())).map(drop)
}
