//! CUDA's driver, loaded when it is needed and absent without harm.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cudarc::driver::{CudaContext, CudaStream, DriverError, result, sys};
use pyo3::prelude::*;
use pyo3::types::PyInt;

use crate::framework::device::Device;
use crate::interpreter::detached::wait_detached;
use crate::interpreter::error::{Error, Result};

/// Whether libcuda can be loaded. cudarc panics on its first call where it cannot.
pub fn is_present() -> bool {
    static PRESENT: OnceLock<bool> = OnceLock::new();
    *PRESENT.get_or_init(|| {
        // SAFETY: it only tries to open the library.
        catch_unwind(|| unsafe { sys::is_culib_present() }).unwrap_or(false)
    })
}

/// The legacy default stream as DLPack numbers it.
pub const LEGACY_STREAM: usize = 1;

/// The same for an export.
pub fn legacy_stream(py: Python<'_>) -> Bound<'_, PyAny> {
    PyInt::new(py, LEGACY_STREAM).into_any()
}

/// Blocks the host until the legacy default stream of a device is done; the device's other streams
/// go on.
///
/// # Errors
///
/// `RuntimeError` when there is no CUDA, or CUDA reports a failure.
pub fn wait_for_legacy_stream(device: Device) -> PyResult<()> {
    let Device::Accelerator(index) = device else { return Ok(()) };
    let wait = || {
        // SAFETY: the null stream always exists in a bound context.
        unsafe { result::stream::synchronize(ptr::null_mut()) }
    };
    Ok(wait_detached(|| in_context(index, wait))?)
}

/// A stream that does not wait for the legacy default stream, and an event to order it with others.
///
/// Neither is ever destroyed.
#[derive(Clone, Copy, Debug)]
pub struct Lane {
    index: usize,
    stream: sys::CUstream,
    event: sys::CUevent,
}

// SAFETY: CUDA's streams and events may be used by any thread that has their context bound, which
// every use here sees to.
unsafe impl Send for Lane {}

impl Lane {
    /// A new stream on a device.
    ///
    /// # Errors
    ///
    /// `RuntimeError` when there is no CUDA, or CUDA reports a failure.
    pub fn new(index: usize) -> Result<Lane> {
        use cudarc::driver::result::{event, stream};
        in_context(index, || {
            let stream = stream::create(stream::StreamKind::NonBlocking)?;
            let event = event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)?;
            Ok(Lane { index, stream, event })
        })
    }

    /// A stream that another module made, with an event of its own.
    ///
    /// # Safety
    ///
    /// The handle is that of a stream of this device which is never destroyed.
    ///
    /// # Errors
    ///
    /// As [`Lane::new`].
    pub unsafe fn over(index: usize, handle: usize) -> Result<Lane> {
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING;
        let event = in_context(index, || result::event::create(flags))?;
        Ok(Lane { index, stream: handle as sys::CUstream, event })
    }

    /// The stream as a number, which is how frameworks take it.
    #[inline]
    pub fn handle(self) -> usize {
        self.stream as usize
    }

    /// What is put on this stream from now on waits for what is on `other` now.
    ///
    /// # Errors
    ///
    /// As [`Lane::new`].
    pub fn wait_for(self, other: usize) -> Result<()> {
        self.order(other as sys::CUstream, self.stream)
    }

    /// What is put on `other` from now on waits for what is on this stream now.
    ///
    /// # Errors
    ///
    /// As [`Lane::new`].
    pub fn hand_over_to(self, other: usize) -> Result<()> {
        self.order(self.stream, other as sys::CUstream)
    }

    /// One event serves for every pair: a wait is for the event as it was last recorded when the
    /// wait is asked for.
    fn order(self, first: sys::CUstream, second: sys::CUstream) -> Result<()> {
        use cudarc::driver::result::{event, stream};
        in_context(self.index, || {
            // SAFETY: the event and this stream are never destroyed, and the other stream is the
            // current one of a framework on this thread.
            unsafe {
                event::record(self.event, first)?;
                stream::wait_event(second, self.event, WAIT)
            }
        })
    }
}

const WAIT: sys::CUevent_wait_flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;

/// Runs calls to the driver with the primary context of a device bound to this thread. It is the
/// one that the frameworks use.
fn in_context<T>(index: usize, body: impl FnOnce() -> Result<T, DriverError>) -> Result<T> {
    checked(|| {
        let context = context(index)?;
        context.bind_to_thread()?;
        body()
    })
}

/// Calls the driver, where there is one.
///
/// # Errors
///
/// [`Error::Cuda`] when there is no CUDA, or CUDA reports a failure; [`Error::DeviceMemory`] when a
/// device has no memory left.
pub fn checked<T>(call: impl FnOnce() -> Result<T, DriverError>) -> Result<T> {
    if !is_present() {
        return Err(Error::Cuda("the CUDA driver library cannot be loaded".into()));
    }
    let call = || {
        let _former = Former::note();
        call()
    };
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => Ok(result?),
        Err(_) => Err(Error::Cuda("the CUDA driver could not be called".into())),
    }
}

/// The context that was current on this thread, and is again when this goes. To the frameworks it is
/// the current device, which work for another device must not change.
pub(crate) struct Former(Option<sys::CUcontext>);

impl Former {
    fn note() -> Former {
        match result::ctx::get_current() {
            Ok(context) => Former(Some(context.unwrap_or(ptr::null_mut()))),
            Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_INITIALIZED)) => {
                Former(Some(ptr::null_mut()))
            }
            Err(_) => Former(None),
        }
    }

    fn bring_back(&self) -> Result<(), DriverError> {
        let Some(former) = self.0 else { return Ok(()) };
        if result::ctx::get_current()?.unwrap_or(ptr::null_mut()) != former {
            // SAFETY: the context was current, and those of devices are not destroyed.
            unsafe { result::ctx::set_current(former) }?;
        }
        Ok(())
    }
}

impl Drop for Former {
    fn drop(&mut self) {
        // A driver that refuses this is past being helped.
        let _ = catch_unwind(AssertUnwindSafe(|| self.bring_back()));
    }
}

/// Makes a device's context the current one of this thread, until what is returned is dropped.
///
/// # Errors
///
/// As [`checked`].
pub(crate) fn made_current(index: usize) -> Result<Former> {
    let context = checked(|| context(index))?;
    let former = Former::note();
    context.bind_to_thread()?;
    Ok(former)
}

/// A stream of another owner as cudarc knows it. Dropping it leaves the stream as it is.
///
/// # Safety
///
/// The handle is that of a stream of this device, which lives as long as what is returned is used.
///
/// # Errors
///
/// As [`checked`].
pub(crate) unsafe fn lasting_stream(index: usize, handle: usize) -> Result<Arc<CudaStream>> {
    checked(|| {
        let context = context(index)?;
        context.bind_to_thread()?;
        // SAFETY: by the contract.
        Ok(unsafe { context.wrap_borrowed_stream(handle as sys::CUstream) })
    })
}

/// A device's primary context, retained once.
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
