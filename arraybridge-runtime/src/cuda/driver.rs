//! CUDA's driver API, through a library that is loaded on first use and may be missing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use cudarc::driver::{CudaContext, CudaStream, DriverError, result, sys};
use pyo3::prelude::*;
use pyo3::types::PyInt;

use crate::framework::device::Device;
use crate::interpreter::detached::{DetachedRef, wait_detached};
use crate::interpreter::error::{Error, Result};
use crate::interpreter::fork;

/// Whether libcuda can be loaded. If it cannot, cudarc panics on the first call.
pub fn is_present() -> bool {
    static PRESENT: OnceLock<bool> = OnceLock::new();
    *PRESENT.get_or_init(|| {
        // SAFETY: this only opens the library.
        catch_unwind(|| unsafe { sys::is_culib_present() }).unwrap_or(false)
    })
}

/// DLPack's number for the legacy default stream.
pub const LEGACY_STREAM: usize = 1;

/// [`LEGACY_STREAM`] as an argument of `__dlpack__`.
pub fn legacy_stream(py: Python<'_>) -> Bound<'_, PyAny> {
    PyInt::new(py, LEGACY_STREAM).into_any()
}

/// Blocks the host until a device's legacy default stream has finished. Other streams are not waited for.
///
/// # Errors
///
/// `RuntimeError` if CUDA is not available or reports a failure.
pub fn wait_for_legacy_stream(device: Device) -> PyResult<()> {
    let Device::Accelerator(index) = device else { return Ok(()) };
    let wait = || {
        // SAFETY: every context has the null stream.
        unsafe { result::stream::synchronize(ptr::null_mut()) }
    };
    Ok(wait_detached(|| in_context(index, wait))?)
}

/// A new stream that does not wait for the legacy default stream. It is never destroyed.
///
/// # Errors
///
/// `RuntimeError` if CUDA is not available or reports a failure.
pub fn new_stream(index: usize) -> Result<usize> {
    let create = || result::stream::create(result::stream::StreamKind::NonBlocking);
    Ok(in_context(index, create)? as usize)
}

/// A point in the work of a stream.
///
/// CUDA's events are reused and never destroyed, so nothing has to be done when the process ends.
#[derive(Debug)]
pub struct Event {
    index: usize,
    event: sys::CUevent,
}

// SAFETY: any thread may use CUDA's events while their context is bound, and every use here binds it.
unsafe impl Send for Event {}
// SAFETY: any number of threads may query an event and wait for it at a time.
unsafe impl Sync for Event {}

pub(super) static UNUSED: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

fn unused() -> MutexGuard<'static, Vec<(usize, usize)>> {
    UNUSED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Event {
    fn new(index: usize) -> Result<Event, DriverError> {
        let known = {
            let mut unused = unused();
            let place = unused.iter().position(|(device, _)| *device == index);
            place.map(|place| unused.swap_remove(place).1 as sys::CUevent)
        };
        let event = match known {
            Some(event) => event,
            None => result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)?,
        };
        Ok(Event { index, event })
    }

    /// The end of the work that a stream of a device has now.
    ///
    /// # Safety
    ///
    /// The handle is that of a stream on this device, and the stream is alive.
    ///
    /// # Errors
    ///
    /// As [`new_stream`].
    pub unsafe fn at_end_of(index: usize, stream: usize) -> Result<Event> {
        in_context(index, || {
            let event = Event::new(index)?;
            // SAFETY: the event is never destroyed, and the stream is alive and of the bound context.
            unsafe { result::event::record(event.event, stream as sys::CUstream) }?;
            Ok(event)
        })
    }

    /// Whether the work is done.
    ///
    /// # Errors
    ///
    /// As [`new_stream`].
    pub fn is_done(&self) -> Result<bool> {
        in_context(self.index, || {
            // SAFETY: the event is never destroyed.
            match unsafe { result::event::query(self.event) } {
                Ok(()) => Ok(true),
                Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_READY)) => Ok(false),
                Err(error) => Err(error),
            }
        })
    }

    /// Blocks the host until the work is done.
    ///
    /// # Errors
    ///
    /// As [`new_stream`].
    pub fn wait(&self) -> Result<()> {
        // SAFETY: the event is never destroyed.
        let wait = || unsafe { result::event::synchronize(self.event) };
        wait_detached(|| in_context(self.index, wait))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        unused().push((self.index, self.event as usize));
    }
}

/// Makes later work on `second` wait for the work that is on `first` now.
///
/// # Safety
///
/// Both handles are those of streams on this device, and the streams are alive.
///
/// # Errors
///
/// As [`new_stream`].
pub unsafe fn order(index: usize, first: usize, second: usize) -> Result<()> {
    if first == second {
        return Ok(());
    }
    in_context(index, || {
        let event = Event::new(index)?;
        // SAFETY: the event is never destroyed, and both streams are alive and of the bound context. A
        // wait is for the event's last record at the time of the call, so the event can be reused at once.
        unsafe {
            result::event::record(event.event, first as sys::CUstream)?;
            result::stream::wait_event(second as sys::CUstream, event.event, WAIT)
        }
    })
}

/// Blocks the host until a device has done all its work.
///
/// # Errors
///
/// As [`new_stream`].
pub fn wait_for_device(index: usize) -> Result<()> {
    wait_detached(|| in_context(index, result::ctx::synchronize))
}

const WAIT: sys::CUevent_wait_flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;

/// Calls the driver with a device's primary context bound to this thread, which is the context that the
/// frameworks use.
fn in_context<T>(index: usize, body: impl FnOnce() -> Result<T, DriverError>) -> Result<T> {
    checked(|| {
        let context = context(index)?;
        context.bind_to_thread()?;
        body()
    })
}

/// Fails in a process that was forked from one that used CUDA. All handles belong to the parent.
///
/// # Errors
///
/// [`Error::Cuda`].
pub(super) fn check_not_lost() -> Result<()> {
    if fork::has_lost_cuda() { Err(Error::Cuda(fork::LOST_CUDA.into())) } else { Ok(()) }
}

/// Calls the driver, and restores the thread's current context afterwards.
///
/// # Errors
///
/// [`Error::Cuda`] if CUDA is not available or reports a failure; [`Error::DeviceMemory`] if a device runs
/// out of memory.
pub fn checked<T>(call: impl FnOnce() -> Result<T, DriverError>) -> Result<T> {
    if !is_present() {
        return Err(Error::Cuda("the CUDA driver library cannot be loaded".into()));
    }
    check_not_lost()?;
    let call = || {
        let _previous = PreviousContext::save();
        call()
    };
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => Ok(result?),
        Err(_) => Err(Error::Cuda("the CUDA driver could not be called".into())),
    }
}

/// The context that was current on this thread, which is made current again on drop. Frameworks take the
/// current context for the current device, and work on another device must not change that.
pub(crate) struct PreviousContext(Option<sys::CUcontext>);

impl PreviousContext {
    fn save() -> PreviousContext {
        match result::ctx::get_current() {
            Ok(context) => PreviousContext(Some(context.unwrap_or(ptr::null_mut()))),
            Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_INITIALIZED)) => {
                PreviousContext(Some(ptr::null_mut()))
            }
            Err(_) => PreviousContext(None),
        }
    }

    fn restore(&self) -> Result<(), DriverError> {
        let Some(previous) = self.0 else { return Ok(()) };
        if result::ctx::get_current()?.unwrap_or(ptr::null_mut()) != previous {
            // SAFETY: the context was current, and primary contexts are not destroyed.
            unsafe { result::ctx::set_current(previous) }?;
        }
        Ok(())
    }
}

impl Drop for PreviousContext {
    fn drop(&mut self) {
        // If the driver fails here, there is nothing else to try.
        let _ = catch_unwind(AssertUnwindSafe(|| self.restore()));
    }
}

/// Makes a device's context current on this thread until the result is dropped.
///
/// # Errors
///
/// As [`checked`].
pub(crate) fn set_current(index: usize) -> Result<PreviousContext> {
    let context = checked(|| context(index))?;
    let previous = PreviousContext::save();
    context.bind_to_thread()?;
    Ok(previous)
}

/// A stream that somebody else owns: its device, its handle, cudarc's object for it, and its owner.
pub(super) type BorrowedStream = (usize, usize, Weak<CudaStream>, DetachedRef);

pub(super) static BORROWED: Mutex<Vec<BorrowedStream>> = Mutex::new(Vec::new());

/// A stream that somebody else owns, as cudarc's type. The owner is kept alive as long as anything refers to
/// the result: memory is freed on the stream on which it was allocated.
///
/// # Safety
///
/// The handle is that of a stream on this device, which lives as long as the owner.
///
/// # Errors
///
/// As [`checked`].
pub(crate) unsafe fn owned_stream(
    index: usize,
    handle: usize,
    owner: impl FnOnce() -> DetachedRef,
) -> Result<Arc<CudaStream>> {
    let (known, unused) = {
        let mut borrowed = BORROWED.lock().unwrap_or_else(PoisonError::into_inner);
        let find = |(device, other, stream, _): &BorrowedStream| match (*device, *other) {
            pair if pair == (index, handle) => stream.upgrade(),
            _ => None,
        };
        let known = borrowed.iter().find_map(find);
        let is_unused = |entry: &mut BorrowedStream| entry.2.strong_count() == 0;
        (known, borrowed.extract_if(.., is_unused).collect::<Vec<_>>())
    };
    // Dropping a stream object runs Python, so the lock is not held here.
    drop(unused);
    if let Some(stream) = known {
        return Ok(stream);
    }
    // SAFETY: the stream lives as long as its owner, which is kept.
    let stream = unsafe { borrowed_stream(index, handle) }?;
    let entry = (index, handle, Arc::downgrade(&stream), owner());
    BORROWED.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
    Ok(stream)
}

/// A stream that somebody else owns, as cudarc's type. Dropping it does not destroy the stream.
///
/// # Safety
///
/// The handle is that of a stream on this device, which lives as long as the result is used.
///
/// # Errors
///
/// As [`checked`].
pub(crate) unsafe fn borrowed_stream(index: usize, handle: usize) -> Result<Arc<CudaStream>> {
    checked(|| {
        let context = context(index)?;
        context.bind_to_thread()?;
        // SAFETY: the handle is that of a stream on this device, which lives as long as the result is used.
        Ok(unsafe { context.wrap_borrowed_stream(handle as sys::CUstream) })
    })
}

pub(super) static CONTEXTS: Mutex<Vec<(usize, Arc<CudaContext>)>> = Mutex::new(Vec::new());

/// A device's primary context, which is retained once and never released.
pub(crate) fn context(index: usize) -> Result<Arc<CudaContext>, DriverError> {
    let mut known = CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, context)) = known.iter().find(|(device, _)| *device == index) {
        return Ok(context.clone());
    }
    let context = CudaContext::new(index)?;
    known.push((index, context.clone()));
    Ok(context)
}
