//! References to Python objects that foreign libraries drop whenever and wherever they like.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use dlpark::OpaqueContext;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// A reference to a Python object that any thread may drop, even after the interpreter is gone.
///
/// PyO3's own reference does not serve here. A library frees DLPack tensors on threads that Python
/// did not make, and also on a thread that called into it through us and on which it has let go of
/// the interpreter meanwhile: PyO3 takes the latter for attached, since it counts only its own
/// calls. The interpreter itself is asked instead.
pub struct Held(NonNull<ffi::PyObject>);

// SAFETY: the pointer is only handed back to the interpreter, by a thread that is attached to it.
unsafe impl Send for Held {}

/// Set when the interpreter begins to end: from then on no other thread may attach to it.
static ENDING: AtomicBool = AtomicBool::new(false);

/// How many threads are about to attach, attached, or about to be let go of.
static ATTACHING: AtomicUsize = AtomicUsize::new(0);

/// How long the end waits for them.
const PATIENCE: Duration = Duration::from_secs(2);

/// Notes the interpreter's end when it comes, and waits for the threads that are attaching. One
/// that was still waiting for its turn when the interpreter has ended would be unwound through
/// frames that cannot be unwound, which ends the process.
pub(crate) fn watch_for_the_end(py: Python<'_>) -> PyResult<()> {
    static WATCHED: PyOnceLock<()> = PyOnceLock::new();
    WATCHED.get_or_try_init(py, || {
        let note = pyo3::types::PyCFunction::new_closure(py, None, None, |arguments, _| {
            ENDING.store(true, Ordering::SeqCst);
            arguments.py().detach(|| {
                // A forked process has the count of threads that it does not have, hence the end.
                let start = Instant::now();
                while ATTACHING.load(Ordering::SeqCst) != 0 && start.elapsed() < PATIENCE {
                    std::thread::yield_now();
                }
            });
        })?;
        py.import("atexit")?.call_method1("register", (note,)).map(drop)
    })?;
    Ok(())
}

impl From<Bound<'_, PyAny>> for Held {
    fn from(object: Bound<'_, PyAny>) -> Held {
        // SAFETY: a bound object's pointer is never null.
        Held(unsafe { NonNull::new_unchecked(object.into_ptr()) })
    }
}

impl Held {
    /// Holds an object.
    pub fn new(object: &Bound<'_, PyAny>) -> Held {
        Held::from(object.clone())
    }

    /// The object, for an attached thread to keep.
    pub fn into_bound(self, py: Python<'_>) -> Bound<'_, PyAny> {
        // SAFETY: the reference is owned, and handed on.
        unsafe { Bound::from_owned_ptr(py, ManuallyDrop::new(self).0.as_ptr()) }
    }

    /// Whether nobody else has a reference to the object.
    pub fn is_sole(&self, _py: Python<'_>) -> bool {
        // SAFETY: the object is alive, and this thread is attached.
        unsafe { ffi::Py_REFCNT(self.0.as_ptr()) == 1 }
    }

    /// The object, looked at.
    pub fn get<'a, 'py>(&'a self, py: Python<'py>) -> Borrowed<'a, 'py, PyAny> {
        // SAFETY: the object is alive as long as this reference.
        unsafe { Borrowed::from_ptr(py, self.0.as_ptr()) }
    }

    /// Holds the same object once more.
    pub fn clone_ref(&self, py: Python<'_>) -> Held {
        // SAFETY: the object is alive, since this reference is owned.
        let object = unsafe { Bound::from_borrowed_ptr(py, self.0.as_ptr()) };
        Held::new(&object)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: the reference is owned, and the closure runs attached.
        attached(|| unsafe { ffi::Py_DECREF(self.0.as_ptr()) });
    }
}

/// Runs `release` attached to the interpreter; not at all when there is none any more, which
/// leaves to the process what should have been released.
fn attached(release: impl FnOnce()) {
    // SAFETY: these ask about the interpreter and attach to it, from any thread, which is allowed
    // until it ends.
    unsafe {
        if ffi::Py_IsInitialized() == 0 {
            return;
        }
        if is_attached() {
            release();
            return;
        }
        // Counted before it is asked, so that the end either sees the count or is seen here.
        ATTACHING.fetch_add(1, Ordering::SeqCst);
        if !ENDING.load(Ordering::SeqCst) {
            let state = ffi::PyGILState_Ensure();
            release();
            ffi::PyGILState_Release(state);
        }
        ATTACHING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Whether this thread is attached, as the interpreter sees it. `PyGILState_Check` compares the same
/// two, but says yes to every thread once the process has made a second interpreter.
#[cfg(not(Py_LIMITED_API))]
fn is_attached() -> bool {
    // SAFETY: these may be asked by any thread, and nothing is looked at behind the pointers.
    let (current, own) = unsafe {
        (ffi::compat::PyThreadState_GetUnchecked(), ffi::PyGILState_GetThisThreadState())
    };
    !current.is_null() && current == own
}

/// The stable interface does not say; attaching once more does no harm, and what is released after
/// the interpreter's end has begun is left to the process.
#[cfg(Py_LIMITED_API)]
fn is_attached() -> bool {
    false
}

/// Waits without the interpreter: what is waited for may call into Python, as the host callbacks of
/// JAX and CuPy do. (By the stable interface it cannot be asked whether there is something to let go
/// of.)
///
/// PyO3 takes the thread for attached meanwhile, so `wait` must not touch Python.
pub(crate) fn wait_detached<T>(wait: impl FnOnce() -> T) -> T {
    // SAFETY: it may be asked by any thread.
    let attached = unsafe { ffi::Py_IsInitialized() != 0 } && is_attached();
    // It is kept while the interpreter ends, since this thread might not get it back.
    if !attached || ENDING.load(Ordering::Acquire) {
        return wait();
    }
    // SAFETY: the thread is attached, and is again when this returns.
    unsafe {
        let state = ffi::PyEval_SaveThread();
        let answer = wait();
        ffi::PyEval_RestoreThread(state);
        answer
    }
}

/// A view of an object's memory through Python's buffer protocol, dropped like [`Held`].
pub struct HeldBuffer(Box<ffi::Py_buffer>);

// SAFETY: the memory is the exporter's, and the view is released by a thread that is attached.
unsafe impl Send for HeldBuffer {}

impl HeldBuffer {
    /// Asks an object for its memory, with strides and format; read-only is enough.
    ///
    /// # Errors
    ///
    /// What the object raises.
    pub fn new(object: &Bound<'_, PyAny>) -> PyResult<HeldBuffer> {
        // An allocation that the allocator has to fill with zeros takes twice as long.
        let mut buffer = Box::<ffi::Py_buffer>::new_uninit();
        let flags = ffi::PyBUF_STRIDES | ffi::PyBUF_FORMAT;
        // SAFETY: the object is alive and the structure is there to be filled: an exporter sets all
        // fields but the one that is its own.
        unsafe {
            (&raw mut (*buffer.as_mut_ptr()).internal).write(std::ptr::null_mut());
            match ffi::PyObject_GetBuffer(object.as_ptr(), buffer.as_mut_ptr(), flags) {
                0 => Ok(HeldBuffer(buffer.assume_init())),
                _ => Err(PyErr::fetch(object.py())),
            }
        }
    }

    /// The view as a pointer, for [`from_raw`](Self::from_raw).
    pub fn into_raw(self) -> *mut ffi::Py_buffer {
        let held = ManuallyDrop::new(self);
        // SAFETY: the box is moved out of what is not dropped.
        Box::into_raw(unsafe { std::ptr::read(&raw const held.0) })
    }

    /// The view again.
    ///
    /// # Safety
    ///
    /// The pointer comes from [`into_raw`](Self::into_raw) and is used once.
    pub unsafe fn from_raw(pointer: *mut ffi::Py_buffer) -> HeldBuffer {
        // SAFETY: it was a box.
        HeldBuffer(unsafe { Box::from_raw(pointer) })
    }

    /// The object whose memory it is, which need not be the one that was asked.
    pub fn exporter<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        // SAFETY: the view holds a reference to the object, if there is one.
        unsafe { Bound::from_borrowed_ptr_or_opt(py, self.0.obj) }
    }

    /// What the object said of its memory.
    pub fn get(&self) -> &ffi::Py_buffer {
        &self.0
    }
}

impl Drop for HeldBuffer {
    fn drop(&mut self) {
        // SAFETY: the view was got and is released once, attached.
        attached(|| unsafe { ffi::PyBuffer_Release(&mut *self.0) });
    }
}

// SAFETY: `Held` may be dropped on any thread.
unsafe impl OpaqueContext for Held {
    fn into_raw(self) -> *mut c_void {
        ManuallyDrop::new(self).0.as_ptr().cast()
    }

    unsafe fn drop_raw(raw: *mut c_void) {
        if let Some(pointer) = NonNull::new(raw.cast()) {
            drop(Held(pointer));
        }
    }
}
