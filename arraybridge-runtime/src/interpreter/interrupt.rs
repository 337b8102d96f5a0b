//! Exceptions that come from outside a call: `KeyboardInterrupt`, and what the handler of a signal raises, as for a
//! timeout. They say nothing about the array, so that no other way is tried and they are raised again.

use std::cell::Cell;
use std::ffi::{c_int, c_long, c_void};

use pyo3::exceptions::{PyException, PyMemoryError};
use pyo3::ffi;
use pyo3::prelude::*;

/// Returns whether an exception is not an `Exception`, or a signal's handler raised it.
#[cold]
pub fn is_interrupt(py: Python<'_>, error: &PyErr) -> bool {
    !error.is_instance_of::<PyException>(py) || is_from_handler(py, error).unwrap_or(false)
}

thread_local! {
    /// True if an attempt of this call found no memory.
    static FOUND_NO_MEMORY: Cell<bool> = const { Cell::new(false) };
}

/// Notes that a call begins, in which memory may suffice.
#[inline]
pub fn forget_memory_error() {
    FOUND_NO_MEMORY.set(false);
}

/// Has an interrupt raised again in this thread, as soon as it runs Python code. A `MemoryError` is remembered: see
/// [`deferred`]. Other exceptions are dropped.
#[cold]
pub fn defer(py: Python<'_>, error: PyErr) {
    if !is_interrupt(py, &error) {
        if error.is_instance_of::<PyMemoryError>(py) {
            FOUND_NO_MEMORY.set(true);
        }
        return;
    }
    let Ok((thread, main)) = threads(py) else { return };
    // SAFETY: the thread is attached. `raise` takes over the exception, unless 32 others are waiting already.
    unsafe {
        if thread == main {
            let exception = error.into_value(py).into_ptr();
            if ffi::Py_AddPendingCall(Some(raise), exception.cast()) != 0 {
                ffi::Py_DECREF(exception);
            }
        } else {
            // It makes a new exception of the class.
            ffi::PyThreadState_SetAsyncExc(thread, error.get_type(py).as_ptr());
        }
    }
}

/// What may be the reason why a call failed: an interrupt that was deferred, or comes from a signal just now, or that an
/// attempt found no memory.
#[cold]
pub fn deferred(py: Python<'_>) -> Option<PyErr> {
    // SAFETY: the thread is attached. Only the main thread has something to do here.
    let failed = unsafe { ffi::Py_MakePendingCalls() } != 0;
    if failed {
        return Some(PyErr::fetch(py));
    }
    FOUND_NO_MEMORY
        .get()
        .then(|| PyMemoryError::new_err("no memory was left to look at the arguments"))
}

/// Raises an exception, and takes over the reference to it.
extern "C" fn raise(exception: *mut c_void) -> c_int {
    Python::attach(|py| {
        // SAFETY: `defer` has handed over a reference to an exception.
        let exception = unsafe { Bound::from_owned_ptr(py, exception.cast()) };
        PyErr::from_value(exception).restore(py);
    });
    -1
}

/// The numbers of this thread and of the main one, which runs the handlers of signals.
fn threads(py: Python<'_>) -> PyResult<(c_long, c_long)> {
    let threading = py.import("threading")?;
    let main = threading.call_method0("main_thread")?.getattr("ident")?;
    Ok((threading.call_method0("get_ident")?.extract()?, main.extract()?))
}

/// Returns whether the code of a signal's handler is in the traceback. Handlers run on top of
/// whatever Python code runs.
fn is_from_handler(py: Python<'_>, error: &PyErr) -> PyResult<bool> {
    let mut entry = error.traceback(py).map(Bound::into_any);
    if entry.is_none() {
        return Ok(false);
    }
    let (thread, main) = threads(py)?;
    if thread != main {
        return Ok(false);
    }
    let handlers = handlers(py)?;
    while let Some(here) = entry {
        let code = here.getattr("tb_frame")?.getattr("f_code")?;
        if handlers.iter().any(|handler| handler.is(&code)) {
            return Ok(true);
        }
        entry = Some(here.getattr("tb_next")?).filter(|next| !next.is_none());
    }
    Ok(false)
}

/// The code of all handlers that are written in Python.
fn handlers(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyAny>>> {
    let signal = py.import("signal")?;
    let mut codes = Vec::new();
    for number in signal.call_method0("valid_signals")?.try_iter()? {
        let mut handler = signal.call_method1("getsignal", (number?,))?;
        if !handler.is_callable() {
            continue;
        }
        // A partial or a bound method, perhaps one of the other.
        for _ in 0..4 {
            match handler.getattr("func").or_else(|_| handler.getattr("__func__")) {
                Ok(inner) => handler = inner,
                Err(_) => break,
            }
        }
        let call = || handler.get_type().getattr("__call__");
        let code = handler.getattr("__code__").or_else(|_| call()?.getattr("__code__"));
        codes.extend(code.ok());
    }
    Ok(codes)
}
