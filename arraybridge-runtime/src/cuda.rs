//! CUDA's driver, loaded when it is needed and absent without harm.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cudarc::driver::{CudaContext, sys};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyInt;

use crate::device::Device;

/// Whether libcuda can be loaded. cudarc panics on its first call where it cannot.
pub fn is_present() -> bool {
    static PRESENT: OnceLock<bool> = OnceLock::new();
    *PRESENT.get_or_init(|| {
        // SAFETY: it only tries to open the library.
        catch_unwind(|| unsafe { sys::is_culib_present() }).unwrap_or(false)
    })
}

/// The legacy default stream as DLPack numbers it.
pub fn legacy_stream(py: Python<'_>) -> Bound<'_, PyAny> {
    PyInt::new(py, 1).into_any()
}

/// Blocks the host until the legacy default stream of a device is done; the device's other streams
/// go on.
///
/// # Errors
///
/// `RuntimeError` when there is no CUDA, or CUDA reports a failure.
pub fn wait_for_legacy_stream(device: Device) -> PyResult<()> {
    let Device::Accelerator(index) = device else { return Ok(()) };
    in_context(index, || {
        // SAFETY: the null stream always exists in a bound context.
        unsafe { cudarc::driver::result::stream::synchronize(std::ptr::null_mut()) }
    })
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
    pub fn new(index: usize) -> PyResult<Lane> {
        use cudarc::driver::result::{event, stream};
        in_context(index, || {
            let stream = stream::create(stream::StreamKind::NonBlocking)?;
            let event = event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)?;
            Ok(Lane { index, stream, event })
        })
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
    pub fn wait_for(self, other: usize) -> PyResult<()> {
        self.order(other as sys::CUstream, self.stream)
    }

    /// What is put on `other` from now on waits for what is on this stream now.
    ///
    /// # Errors
    ///
    /// As [`Lane::new`].
    pub fn hand_over_to(self, other: usize) -> PyResult<()> {
        self.order(self.stream, other as sys::CUstream)
    }

    /// One event serves for every pair: a wait is for the event as it was last recorded when the
    /// wait is asked for.
    fn order(self, first: sys::CUstream, second: sys::CUstream) -> PyResult<()> {
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
fn in_context<T>(
    index: usize,
    body: impl FnOnce() -> Result<T, cudarc::driver::DriverError>,
) -> PyResult<T> {
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
/// `RuntimeError` when there is no CUDA, or CUDA reports a failure.
pub fn checked<T>(call: impl FnOnce() -> Result<T, cudarc::driver::DriverError>) -> PyResult<T> {
    if !is_present() {
        return Err(PyRuntimeError::new_err("the CUDA driver library cannot be loaded"));
    }
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(PyRuntimeError::new_err(format!("CUDA error {}", error.0 as u32))),
        Err(_) => Err(PyRuntimeError::new_err("the CUDA driver could not be called")),
    }
}

/// A device's primary context, retained once.
fn context(index: usize) -> Result<Arc<CudaContext>, cudarc::driver::DriverError> {
    static KNOWN: Mutex<Vec<(usize, Arc<CudaContext>)>> = Mutex::new(Vec::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, context)) = known.iter().find(|(device, _)| *device == index) {
        return Ok(context.clone());
    }
    let context = CudaContext::new(index)?;
    known.push((index, context.clone()));
    Ok(context)
}
