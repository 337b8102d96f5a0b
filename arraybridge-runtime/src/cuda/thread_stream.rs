//! `arraybridge.thread_stream`: a CUDA stream of a thread's own, for all frameworks.

use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ThreadId};

use pyo3::exceptions::{PyException, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::PyInt;

use crate::cuda::driver;
use crate::cuda::streams::{self, Current};
use crate::framework::device::{self, Device};
use crate::framework::endpoints::Endpoints;
use crate::framework::generated::MemoryType;
use crate::framework::loaded::{self, LoadedFramework, is_imported};
use crate::framework::spec::Streams;
use crate::interpreter::error::postpone;
use crate::interpreter::held::Held;

/// A stream of a thread's own on a device.
///
/// It is never destroyed: frameworks remember memory by the stream that it was allocated on. When its
/// thread ends, it passes to another one.
struct Own {
    index: usize,
    handle: usize,
    /// The streams that it was left to. Memory of its pools may be in use there, so it waits for them
    /// before such memory is handed out again.
    left_to: Vec<(usize, Held)>,
}

static FREE: Mutex<Vec<Own>> = Mutex::new(Vec::new());

/// The streams of a thread.
struct Mine(Vec<Own>);

thread_local! {
    static MINE: RefCell<Mine> = const { RefCell::new(Mine(Vec::new())) };
}

impl Drop for Mine {
    fn drop(&mut self) {
        FREE.lock().unwrap_or_else(PoisonError::into_inner).append(&mut self.0);
    }
}

/// Looks at this thread's stream of a device, which is made if there is none.
fn with_own<T>(index: usize, look: impl FnOnce(&mut Own) -> T) -> PyResult<T> {
    let known = MINE.with_borrow(|mine| mine.0.iter().any(|own| own.index == index));
    if !known {
        let free = {
            let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
            let place = free.iter().position(|own| own.index == index);
            place.map(|place| free.swap_remove(place))
        };
        let own = match free {
            Some(own) => own,
            None => Own { index, handle: driver::new_stream(index)?, left_to: Vec::new() },
        };
        MINE.with_borrow_mut(|mine| mine.0.push(own));
    }
    MINE.with_borrow_mut(|mine| {
        let own = mine.0.iter_mut().find(|own| own.index == index);
        Ok(look(own.expect("the stream was found or made")))
    })
}

/// A framework that was brought to the stream.
struct Entered {
    stream: Py<PyAny>,
    device: Option<Py<PyAny>>,
    before: usize,
    owner: Held,
}

/// One `with` of a thread.
struct Visit {
    thread: ThreadId,
    entered: Vec<Entered>,
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
    fn new(device: usize) -> ThreadStream {
        ThreadStream { index: device, visits: Mutex::new(Vec::new()) }
    }

    /// The version of the protocol, and the handle of the calling thread's stream.
    fn __cuda_stream__(&self) -> PyResult<(u32, usize)> {
        with_own(self.index, |own| (0, own.handle))
    }

    fn __enter__<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        let (py, index) = (slf.py(), slf.get().index);
        let (handle, left_to) = with_own(index, |own| {
            let left_to: Vec<usize> = own.left_to.iter().map(|(handle, _)| *handle).collect();
            (own.handle, left_to)
        })?;
        for other in left_to {
            // SAFETY: the object of each stream that this one was left to is kept.
            unsafe { driver::order(index, other, handle) }?;
        }
        let mut entered = Vec::new();
        for framework in MemoryType::ALL.map(MemoryType::framework) {
            let Some(ops) = framework.stream.as_ref().filter(|_| is_imported(py, framework)) else {
                continue;
            };
            let loaded = loaded::load(py, framework, Endpoints::of(framework))?;
            match enter(&slf, loaded, ops, handle) {
                Ok(visit) => entered.extend(visit),
                // It is left out: the others are not to suffer from it.
                Err(error) if error.is_instance_of::<PyException>(py) => {}
                Err(error) => postpone(py, &error),
            }
        }
        let visit = Visit { thread: thread::current().id(), entered };
        slf.get().visits.lock().unwrap_or_else(PoisonError::into_inner).push(visit);
        Ok(slf)
    }

    #[pyo3(signature = (*_error))]
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

/// Brings a framework to a stream; `None` where it does not have the device, or is on the stream.
fn enter(
    slf: &Bound<'_, ThreadStream>,
    loaded: &LoadedFramework,
    ops: &Streams,
    handle: usize,
) -> PyResult<Option<Entered>> {
    let (py, index) = (slf.py(), slf.get().index);
    if index >= loaded.accelerators(py) {
        return Ok(None);
    }
    let none = || py.None().into_bound(py);
    let device = device::object(py, loaded, Device::Accelerator(index))?.unwrap_or_else(none);
    let scope = loaded.framework.device.scope;
    // A stream is refused while another device is current.
    let scope = scope.map(|scope| scope.call(py, [loaded.module(py), &device])).transpose()?;
    if let Some(scope) = &scope {
        scope.call_method0(pyo3::intern!(py, "__enter__"))?;
    }
    let entered = || -> PyResult<Option<Entered>> {
        let Some(Current { handle: before, object }) = streams::current(py, loaded, index)? else {
            return Ok(None);
        };
        // SAFETY: the framework's object keeps its stream alive, and the thread's own always exists.
        unsafe { driver::order(index, before, handle) }?;
        let (number, number_of_device) = (PyInt::new(py, handle), PyInt::new(py, index));
        let module = loaded.module(py);
        let names = [module, number.as_any(), &device, number_of_device.as_any(), slf.as_any()];
        let stream = ops.wrap.call(py, names)?;
        let stream = ops.scope.call(py, [module, &stream])?;
        stream.call_method0(pyo3::intern!(py, "__enter__"))?;
        Ok(Some(Entered { stream: stream.unbind(), device: None, before, owner: object.into() }))
    };
    match (entered(), scope) {
        (Ok(Some(entered)), scope) => {
            Ok(Some(Entered { device: scope.map(Bound::unbind), ..entered }))
        }
        (failed, Some(scope)) => {
            exit(&scope)?;
            failed
        }
        (failed, None) => failed,
    }
}

/// Lets a framework return to the stream that it was on, which waits for the thread's own.
fn leave(py: Python<'_>, index: usize, entered: Entered) -> PyResult<()> {
    let Entered { stream, device, before, owner, .. } = entered;
    let left = exit(stream.bind(py));
    let left = left.and(device.map_or(Ok(()), |device| exit(device.bind(py))));
    let handle = with_own(index, |own| own.handle)?;
    // SAFETY: the owner keeps the stream alive, and the thread's own always exists.
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
    let exit = pyo3::intern!(py, "__exit__");
    scope.call_method1(exit, (none(), none(), none())).map(drop)
}
