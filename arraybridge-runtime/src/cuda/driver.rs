//! CUDA's driver API, through a library that is loaded on first use and may be missing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cudarc::driver::{CudaContext, CudaStream, DriverError, result, sys};
use pyo3::prelude::*;
use pyo3::types::PyInt;

use crate::framework::device::Device;
use crate::interpreter::detached::wait_detached;
use crate::interpreter::error::{Error, Result};

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

/// The stream of a thread on a device, with an event to order it with other streams. It does not wait for
/// the legacy default stream. Stream and event are never destroyed.
#[derive(Clone, Copy, Debug)]
pub struct ThreadStream {
    index: usize,
    stream: sys::CUstream,
    event: sys::CUevent,
}

// SAFETY: any thread may use CUDA's streams and events while their context is bound, and every use here
// binds it.
unsafe impl Send for ThreadStream {}

impl ThreadStream {
    /// A new stream on a device.
    ///
    /// # Errors
    ///
    /// `RuntimeError` if CUDA is not available or reports a failure.
    pub fn new(index: usize) -> Result<ThreadStream> {
        use cudarc::driver::result::{event, stream};
        in_context(index, || {
            let stream = stream::create(stream::StreamKind::NonBlocking)?;
            let event = event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)?;
            Ok(ThreadStream { index, stream, event })
        })
    }

    /// A stream that another extension module made, with a new event.
    ///
    /// # Safety
    ///
    /// The handle is that of a stream on this device that is never destroyed.
    ///
    /// # Errors
    ///
    /// As [`ThreadStream::new`].
    pub unsafe fn from_handle(index: usize, handle: usize) -> Result<ThreadStream> {
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING;
        let event = in_context(index, || result::event::create(flags))?;
        Ok(ThreadStream { index, stream: handle as sys::CUstream, event })
    }

    /// The handle as a number, as frameworks take it.
    #[inline]
    pub fn handle(self) -> usize {
        self.stream as usize
    }

    /// Makes later work on this stream wait for the work that is on `other` now.
    ///
    /// # Safety
    ///
    /// `other` is a stream of this device, and alive.
    ///
    /// # Errors
    ///
    /// As [`ThreadStream::new`].
    pub unsafe fn wait_for(self, other: usize) -> Result<()> {
        // SAFETY: both streams are of this device, and alive.
        unsafe { self.order(other as sys::CUstream, self.stream) }
    }

    /// Makes later work on `other` wait for the work that is on this stream now.
    ///
    /// # Safety
    ///
    /// `other` is a stream of this device, and alive.
    ///
    /// # Errors
    ///
    /// As [`ThreadStream::new`].
    pub unsafe fn release_to(self, other: usize) -> Result<()> {
        // SAFETY: both streams are of this device, and alive.
        unsafe { self.order(self.stream, other as sys::CUstream) }
    }

    /// Makes the second stream wait for the first. One event serves all pairs, since a wait is for the
    /// event's last record at the time of the call.
    ///
    /// # Safety
    ///
    /// Both are streams of this device, and alive.
    unsafe fn order(self, first: sys::CUstream, second: sys::CUstream) -> Result<()> {
        use cudarc::driver::result::{event, stream};
        in_context(self.index, || {
            // SAFETY: the event is never destroyed, and both streams are alive and of the bound context.
            unsafe {
                event::record(self.event, first)?;
                stream::wait_event(second, self.event, WAIT)
            }
        })
    }
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

/// A device's primary context, which is retained once and never released.
pub(crate) fn context(index: usize) -> Result<Arc<CudaContext>, DriverError> {
    static KNOWN: Mutex<Vec<(usize, Arc<CudaContext>)>> = Mutex::new(Vec::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, context)) = known.iter().find(|(device, _)| *device == index) {
        return Ok(context.clone());
    }
    let context = CudaContext::new(index)?;
    known.push((index, context.clone()));
    Ok(context)
}
