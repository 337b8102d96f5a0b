//! References to Python objects that foreign libraries drop on any thread, at any time.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::interpreter::once::Once;
use arraybridge_tensor::memory::source::Handle;
use dlpark::OpaqueContext;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// A reference to a Python object that any thread may drop, even after the interpreter is finalized.
///
/// PyO3's `Py` does not serve here. A library frees DLPack tensors on threads that Python did not
/// make, and also on a thread that called into the library through us and has released the
/// interpreter meanwhile. PyO3 believes the latter to be attached, since it counts only its own
/// calls. So the interpreter itself is asked.
#[repr(transparent)]
pub struct DetachedRef(NonNull<ffi::PyObject>);

// SAFETY: the pointer is only used by threads that are attached to the interpreter.
unsafe impl Send for DetachedRef {}

/// True once the interpreter has started to finalize: from then on no other thread may attach to
/// it.
static FINALIZING: AtomicBool = AtomicBool::new(false);

/// The number of threads that are attaching or attached to drop a reference.
static ATTACHING: AtomicUsize = AtomicUsize::new(0);

/// The time that finalization waits for them.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// Notes when the interpreter starts to finalize, and makes that wait for the threads that are
/// attaching. A thread that still waits for the interpreter once it is finalized would be unwound
/// through frames that cannot be unwound, which ends the process.
pub fn watch_finalization(py: Python<'_>) -> PyResult<()> {
    static WATCHED: PyOnceLock<()> = PyOnceLock::new();
    WATCHED.try_once(py, || {
        let note = pyo3::types::PyCFunction::new_closure(py, None, None, |arguments, _| {
            FINALIZING.store(true, Ordering::SeqCst);
            arguments.py().detach(|| {
                // A forked process inherits the count, but not the threads: hence the limit.
                let start = Instant::now();
                while ATTACHING.load(Ordering::SeqCst) != 0 && start.elapsed() < MAX_WAIT {
                    std::thread::yield_now();
                }
            });
        })?;
        py.import("atexit")?.call_method1("register", (note,)).map(drop)
    })?;
    Ok(())
}

/// Returns whether the interpreter has started to finalize, if that was watched.
#[cfg(target_os = "linux")]
pub(super) fn is_finalizing() -> bool {
    FINALIZING.load(Ordering::SeqCst)
}

/// Returns whether an object has one reference, so that nobody else can use it. Without the GIL,
/// other threads have counts of their own: CPython 3.14 can be asked; before that, and by the stable
/// interface, the answer is no.
///
/// # Safety
///
/// The object is alive, and the thread is attached.
#[inline]
pub unsafe fn is_unique(object: *mut ffi::PyObject) -> bool {
    // SAFETY: see above.
    #[cfg(not(Py_GIL_DISABLED))]
    return unsafe { ffi::Py_REFCNT(object) == 1 };
    // SAFETY: see above.
    #[cfg(all(Py_GIL_DISABLED, Py_3_14, not(Py_LIMITED_API)))]
    return unsafe { ffi::PyUnstable_Object_IsUniquelyReferenced(object) == 1 };
    #[cfg(all(Py_GIL_DISABLED, any(not(Py_3_14), Py_LIMITED_API)))]
    return (false, object).0;
}

impl From<Bound<'_, PyAny>> for DetachedRef {
    fn from(object: Bound<'_, PyAny>) -> DetachedRef {
        // SAFETY: a bound object's pointer is never null.
        DetachedRef(unsafe { NonNull::new_unchecked(object.into_ptr()) })
    }
}

impl DetachedRef {
    /// A new reference to an object.
    pub fn new(object: &Bound<'_, PyAny>) -> DetachedRef {
        DetachedRef::from(object.clone())
    }

    /// The reference as PyO3's, for a thread that is attached.
    pub fn into_bound(self, py: Python<'_>) -> Bound<'_, PyAny> {
        // SAFETY: the reference is owned, and passed on.
        unsafe { Bound::from_owned_ptr(py, ManuallyDrop::new(self).0.as_ptr()) }
    }

    /// Returns whether this is the only reference to the object.
    pub fn is_unique(&self, _py: Python<'_>) -> bool {
        // SAFETY: the object is alive, and this thread is attached.
        unsafe { is_unique(self.0.as_ptr()) }
    }

    /// The object.
    pub fn get<'a, 'py>(&'a self, py: Python<'py>) -> Borrowed<'a, 'py, PyAny> {
        // SAFETY: the object is alive as long as this reference.
        unsafe { Borrowed::from_ptr(py, self.0.as_ptr()) }
    }

    /// Another reference to the object.
    pub fn clone_ref(&self, py: Python<'_>) -> DetachedRef {
        DetachedRef::new(&self.get(py))
    }
}

impl Drop for DetachedRef {
    fn drop(&mut self) {
        // SAFETY: the reference is owned, and the closure runs attached.
        while_attached(|| unsafe { ffi::Py_DECREF(self.0.as_ptr()) });
    }
}

/// Runs `release` attached to the interpreter, or not at all if that has started to finalize: then
/// the operating system frees what is left.
fn while_attached(release: impl FnOnce()) {
    // SAFETY: any thread may ask about the interpreter, and attach to it until it is finalized.
    unsafe {
        if ffi::Py_IsInitialized() == 0 {
            return;
        }
        if is_attached() {
            release();
            return;
        }
        // Counted before the flag is read, so that either finalization sees the count or this thread
        // sees the flag.
        ATTACHING.fetch_add(1, Ordering::SeqCst);
        if !FINALIZING.load(Ordering::SeqCst) {
            let state = ffi::PyGILState_Ensure();
            release();
            ffi::PyGILState_Release(state);
        }
        ATTACHING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Returns whether this thread is attached, according to the interpreter. `PyGILState_Check`
/// compares the same two states, but is true on every thread once the process has made a second
/// interpreter.
#[cfg(not(Py_LIMITED_API))]
fn is_attached() -> bool {
    // SAFETY: any thread may call these, and the pointers are not dereferenced.
    let (current, own) = unsafe {
        (ffi::compat::PyThreadState_GetUnchecked(), ffi::PyGILState_GetThisThreadState())
    };
    !current.is_null() && current == own
}

/// The stable interface does not tell. A thread that is attached may attach again, and what is released
/// during finalization is left to the operating system.
#[cfg(Py_LIMITED_API)]
fn is_attached() -> bool {
    false
}

/// Waits for a device with the interpreter released, if this thread is attached: what is waited for
/// may call into Python, as host callbacks of JAX and CuPy do. The stable interface does not tell
/// whether the thread is attached, so there the interpreter is kept.
pub fn wait_detached<T: Send>(wait: impl FnOnce() -> T + Send) -> T {
    // SAFETY: any thread may ask this.
    let attached = unsafe { ffi::Py_IsInitialized() != 0 } && is_attached();
    // During finalization the interpreter is kept, since this thread might not get it back.
    if !attached || FINALIZING.load(Ordering::Acquire) {
        return wait();
    }
    // SAFETY: the thread is attached.
    unsafe { Python::attach_unchecked(|py| py.detach(wait)) }
}

/// A view of an object's memory through Python's buffer protocol, which any thread may release, like
/// [`DetachedRef`].
#[repr(transparent)]
pub struct DetachedBuffer(Box<ffi::Py_buffer>);

// SAFETY: the view gives addresses and no access, and is released by a thread that is attached.
unsafe impl Send for DetachedBuffer {}

impl DetachedBuffer {
    /// Asks an object for its memory, with strides and format. Read-only memory will do.
    ///
    /// PyO3's `PyBuffer` fixes the element type, and drops as `Py` does.
    pub fn new(object: &Bound<'_, PyAny>) -> PyResult<DetachedBuffer> {
        // Zeroed memory would take the allocator twice as long.
        let mut buffer = Box::<ffi::Py_buffer>::new_uninit();
        let flags = ffi::PyBUF_STRIDES | ffi::PyBUF_FORMAT;
        // SAFETY: the object is alive. An exporter that succeeds sets every field except `internal`,
        // which is its own.
        unsafe {
            (&raw mut (*buffer.as_mut_ptr()).internal).write(std::ptr::null_mut());
            match ffi::PyObject_GetBuffer(object.as_ptr(), buffer.as_mut_ptr(), flags) {
                0 => Ok(DetachedBuffer(buffer.assume_init())),
                _ => Err(PyErr::fetch(object.py())),
            }
        }
    }

    /// The object whose memory it is, which need not be the one that was asked.
    pub fn exporter<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        // SAFETY: the view has a reference to the object, if there is one.
        unsafe { Bound::from_borrowed_ptr_or_opt(py, self.0.obj) }
    }

    /// The exporter's description of its memory.
    pub fn get(&self) -> &ffi::Py_buffer {
        &self.0
    }
}

impl Drop for DetachedBuffer {
    fn drop(&mut self) {
        // SAFETY: the view was made by `PyObject_GetBuffer`, and is released once, attached.
        while_attached(|| unsafe { ffi::PyBuffer_Release(&mut *self.0) });
    }
}

// SAFETY: a `DetachedRef` may be dropped on any thread.
unsafe impl OpaqueContext for DetachedRef {
    fn into_raw(self) -> *mut c_void {
        ManuallyDrop::new(self).0.as_ptr().cast()
    }

    unsafe fn drop_raw(raw: *mut c_void) {
        if let Some(pointer) = NonNull::new(raw.cast()) {
            drop(DetachedRef(pointer));
        }
    }
}

// SAFETY: it is represented by its pointer.
unsafe impl Handle for DetachedRef {}

// SAFETY: a `DetachedBuffer` may be dropped on any thread.
unsafe impl OpaqueContext for DetachedBuffer {
    fn into_raw(self) -> *mut c_void {
        let buffer = ManuallyDrop::new(self);
        // SAFETY: the box is moved out of a value that is not dropped.
        Box::into_raw(unsafe { std::ptr::read(&raw const buffer.0) }).cast()
    }

    unsafe fn drop_raw(raw: *mut c_void) {
        // SAFETY: by the trait's contract the pointer comes from `into_raw`, and is used once.
        drop(DetachedBuffer(unsafe { Box::from_raw(raw.cast()) }));
    }
}

// SAFETY: it is represented by the pointer of its box.
unsafe impl Handle for DetachedBuffer {}

#[cfg(all(test, not(Py_LIMITED_API)))]
mod tests;
