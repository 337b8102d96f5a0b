//! CUDA's driver API, through a library that is loaded on first use and may be missing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use cudarc::driver::{CudaContext, CudaStream, DriverError, result, sys};

use super::fork;
use crate::binding;
use crate::dlpack::LEGACY_STREAM;
use crate::error::{Error, Result};

/// The reason why there is no driver in this build; `None` if there is one.
pub const MISSING: Option<&str> = None;

/// A stream that is destroyed with its last user, unless somebody else owns it.
pub type SharedStream = Arc<CudaStream>;

/// The handle of a stream as a number, in which 1 is the legacy default stream.
pub fn handle(stream: &SharedStream) -> usize {
    (stream.cu_stream() as usize).max(LEGACY_STREAM)
}

/// Returns whether libcuda can be loaded. If it cannot, cudarc panics on the first call.
pub fn is_present() -> bool {
    static PRESENT: OnceLock<bool> = OnceLock::new();
    *PRESENT.get_or_init(|| {
        // SAFETY: this only opens the library.
        catch_unwind(|| unsafe { sys::is_culib_present() }).unwrap_or(false)
    })
}

/// Blocks the host until a device's legacy default stream has finished. Other streams are not waited for.
pub fn wait_for_legacy_stream(index: usize) -> Result<()> {
    let wait = || {
        // SAFETY: every context has the null stream.
        unsafe { result::stream::synchronize(ptr::null_mut()) }
    };
    binding::wait(|| in_context(index, wait))
}

/// A new stream that does not wait for the legacy default stream. It is never destroyed.
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

/// The events that are used again, each with its device.
pub static UNUSED: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

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
    pub unsafe fn at_end_of(index: usize, stream: usize) -> Result<Event> {
        in_context(index, || {
            let event = Event::new(index)?;
            // SAFETY: the event is never destroyed, and the stream is alive and of the bound context.
            unsafe { result::event::record(event.event, stream as sys::CUstream) }?;
            Ok(event)
        })
    }

    /// Returns whether the work is done.
    pub fn is_done(&self) -> Result<bool> {
        in_context(self.index, || {
            // The query has nothing to do with a graph that somebody captures meanwhile, and would end the capture.
            let mut mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
            // SAFETY: the modes of this thread are exchanged, and exchanged back below.
            unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut mode) }.result()?;
            // SAFETY: the event is never destroyed.
            let answer = unsafe { result::event::query(self.event) };
            // SAFETY: as above.
            unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut mode) }.result()?;
            match answer {
                Ok(()) => Ok(true),
                Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_READY)) => Ok(false),
                Err(error) => Err(error),
            }
        })
    }

    /// Blocks the host until the work is done.
    pub fn wait(&self) -> Result<()> {
        // SAFETY: the event is never destroyed.
        let wait = || unsafe { result::event::synchronize(self.event) };
        binding::wait(|| in_context(self.index, wait))
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

/// Makes later work on the second stream wait for the work that is on the first one now. Each comes with its device.
///
/// # Safety
///
/// Each handle is that of a stream on its device, and the streams are alive.
pub unsafe fn order_devices(first: (usize, usize), second: (usize, usize)) -> Result<()> {
    // SAFETY: the stream is of this device, and alive.
    let event = unsafe { Event::at_end_of(first.0, first.1) }?;
    in_context(second.0, || {
        // SAFETY: the event is never destroyed, and the stream is alive and of the bound context. The event can be
        // reused at once, as in `order`.
        unsafe { result::stream::wait_event(second.1 as sys::CUstream, event.event, WAIT) }
    })
}

/// Blocks the host until a device has done all its work.
pub fn wait_for_device(index: usize) -> Result<()> {
    binding::wait(|| in_context(index, result::ctx::synchronize))
}

/// Copies memory of a device to the host, once a stream has done the work that it has now.
///
/// # Safety
///
/// The handle is that of a stream on this device, and the stream is alive. The memory has as many bytes, which
/// have values by then.
pub unsafe fn download(index: usize, stream: usize, from: *const u8, to: &mut [u8]) -> Result<()> {
    let from = from as sys::CUdeviceptr;
    binding::wait(|| {
        in_context(index, || {
            // SAFETY: the stream is alive, and the memory has as many bytes.
            unsafe {
                result::stream::synchronize(stream as sys::CUstream)?;
                result::memcpy_dtoh_sync(to, from)
            }
        })
    })
}

/// Copies memory within a device, after the work that a stream has now.
///
/// # Safety
///
/// The handle is that of a stream on this device, and the stream is alive. Both have as many bytes, and stay until the
/// stream has copied them.
pub unsafe fn copy(
    index: usize,
    stream: usize,
    from: *const u8,
    to: *mut u8,
    len: usize,
) -> Result<()> {
    let (from, to) = (from as sys::CUdeviceptr, to as sys::CUdeviceptr);
    // SAFETY: the caller promises that.
    let copy = || unsafe { result::memcpy_dtod_async(to, from, len, stream as sys::CUstream) };
    if len == 0 { Ok(()) } else { in_context(index, copy) }
}

/// The device whose context is current on this thread.
pub fn current() -> Result<usize> {
    let mut device = 0;
    // SAFETY: it writes to this number.
    checked(|| unsafe { sys::cuCtxGetDevice(&mut device) }.result())?;
    Ok(device as usize)
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
pub fn check_not_lost() -> Result<()> {
    if fork::has_lost_cuda() { Err(Error::Cuda(fork::lost_cuda().into())) } else { Ok(()) }
}

const NO_DRIVER: &str =
    "the CUDA driver library cannot be loaded; install NVIDIA's driver, or work on the host";

/// Calls the driver, and restores the thread's current context afterwards.
///
/// # Errors
///
/// [`Error::Cuda`] if CUDA is not available or reports a failure; [`Error::DeviceMemory`] if a device runs
/// out of memory.
pub fn checked<T>(call: impl FnOnce() -> Result<T, DriverError>) -> Result<T> {
    if !is_present() {
        return Err(Error::Cuda(NO_DRIVER.into()));
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
pub struct PreviousContext(Option<sys::CUcontext>);

/// Makes the context that is current on this thread current again when the result is dropped: XLA leaves another one
/// when it starts, and after some transfers. `None` where nothing can have changed.
#[inline]
pub fn keep_current() -> Option<PreviousContext> {
    (is_present() && !fork::has_lost_cuda()).then(PreviousContext::save)
}

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

    /// The device whose primary context this is, if [`keep_context`] has kept that.
    pub fn device(&self) -> Option<usize> {
        let known = CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|(_, context)| Some(context.cu_ctx()) == self.0).map(|(index, _)| *index)
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
pub fn set_current(index: usize) -> Result<PreviousContext> {
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
pub unsafe fn borrowed_stream(index: usize, handle: usize) -> Result<SharedStream> {
    checked(|| {
        let context = context(index)?;
        context.bind_to_thread()?;
        // SAFETY: the handle is that of a stream on this device, which lives as long as the result is used.
        Ok(unsafe { context.wrap_borrowed_stream(handle as sys::CUstream) })
    })
}

/// The primary contexts that are kept, each with its device.
pub static CONTEXTS: Mutex<Vec<(usize, Arc<CudaContext>)>> = Mutex::new(Vec::new());

/// A device's primary context, which is retained once and never released.
fn context(index: usize) -> Result<Arc<CudaContext>, DriverError> {
    let mut known = CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, context)) = known.iter().find(|(device, _)| *device == index) {
        return Ok(context.clone());
    }
    let context = CudaContext::new(index)?;
    known.push((index, context.clone()));
    Ok(context)
}

/// Keeps the primary context of a device, on which there is an array, so that it is recognized.
pub fn keep_context(index: usize) {
    // Without it, the frameworks are asked for their current device.
    let _ = checked(|| context(index));
}

impl From<DriverError> for Error {
    /// Without the driver's description of the error, since asking for that calls the driver, which may be
    /// missing.
    fn from(DriverError(code): DriverError) -> Error {
        match code {
            sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                Error::DeviceMemory("CUDA ran out of device memory".into())
            }
            // CUDA is always initialized first, so this is what a forked process is told.
            sys::CUresult::CUDA_ERROR_NOT_INITIALIZED => Error::Cuda(fork::lost_cuda().into()),
            // cudarc opens `libcuda.so` before `libcuda.so.1`, the only name that every driver has.
            sys::CUresult::CUDA_ERROR_STUB_LIBRARY => Error::Cuda(
                "the libcuda.so that was found first is a CUDA toolkit's stub, which is for linking only; \
                 take its folder out of LD_LIBRARY_PATH"
                    .into(),
            ),
            code => Error::Cuda(format!("CUDA reports error {} ({code:?})", code as u32)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_is_missing_is_an_error() {
        let error = wait_for_legacy_stream(usize::MAX).unwrap_err();
        assert!(matches!(error, Error::Cuda(_)), "{error}");
        if !is_present() {
            let text = "the CUDA driver library cannot be loaded; install NVIDIA's driver, or work on \
                        the host";
            assert_eq!(error.to_string(), text);
        }
    }

    #[test]
    fn an_error_of_the_driver_is_described_without_the_driver() {
        let exhausted = Error::from(DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY));
        assert!(matches!(exhausted, Error::DeviceMemory(_)), "{exhausted}");
        let other = Error::from(DriverError(sys::CUresult::CUDA_ERROR_ILLEGAL_ADDRESS)).to_string();
        assert_eq!(other, "CUDA reports error 700 (CUDA_ERROR_ILLEGAL_ADDRESS)");
    }
}
