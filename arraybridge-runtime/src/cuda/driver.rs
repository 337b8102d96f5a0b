//! CUDA's driver, loaded when it is needed and absent without harm.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use cudarc::driver::{CudaContext, CudaStream, DriverError, result, sys};
use pyo3::prelude::*;
use pyo3::types::PyInt;

use crate::framework::device::Device;
use crate::interpreter::error::{Error, Result};
use crate::interpreter::held::{Held, wait_detached};

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

/// A new stream that does not wait for the legacy default stream. It is never destroyed.
///
/// # Errors
///
/// `RuntimeError` when there is no CUDA, or CUDA reports a failure.
pub fn new_stream(index: usize) -> Result<usize> {
    let create = || result::stream::create(result::stream::StreamKind::NonBlocking);
    Ok(in_context(index, create)? as usize)
}

/// A point in the work of a stream.
///
/// Events are used again and never destroyed, so that nothing has to be done when the process ends.
#[derive(Debug)]
pub struct Event {
    index: usize,
    event: sys::CUevent,
}

// SAFETY: CUDA's events may be used by any thread that has their context bound, which `in_context`
// sees to.
unsafe impl Send for Event {}

static UNUSED: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

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
    /// The handle is that of a stream of this device which is not destroyed.
    ///
    /// # Errors
    ///
    /// As [`new_stream`].
    pub unsafe fn at_end_of(index: usize, stream: usize) -> Result<Event> {
        in_context(index, || {
            let event = Event::new(index)?;
            // SAFETY: the event is never destroyed, and the stream exists by the contract.
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

/// What is put on `second` from now on waits for what is on `first` now.
///
/// # Safety
///
/// The handles are those of streams of this device which are not destroyed.
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
        // SAFETY: the event is never destroyed, and the streams exist by the contract. A wait is for
        // the event as it was last recorded, so the event can be used again at once.
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

/// The streams of other owners that cudarc's objects refer to, and what keeps each alive.
type Borrowed = (usize, usize, Weak<CudaStream>, Held);

static BORROWED: Mutex<Vec<Borrowed>> = Mutex::new(Vec::new());

/// A stream of another owner as cudarc knows it. The owner is kept as long as anything refers to the
/// stream: memory is freed on the stream that it was allocated on.
///
/// # Safety
///
/// The handle is that of a stream of this device, which exists as long as the owner.
///
/// # Errors
///
/// As [`checked`].
pub(crate) unsafe fn borrowed_stream(
    index: usize,
    handle: usize,
    owner: impl FnOnce() -> Held,
) -> Result<Arc<CudaStream>> {
    let (known, unused) = {
        let mut borrowed = BORROWED.lock().unwrap_or_else(PoisonError::into_inner);
        let find = |(device, other, stream, _): &Borrowed| match (*device, *other) {
            pair if pair == (index, handle) => stream.upgrade(),
            _ => None,
        };
        let known = borrowed.iter().find_map(find);
        let is_unused = |entry: &mut Borrowed| entry.2.strong_count() == 0;
        (known, borrowed.extract_if(.., is_unused).collect::<Vec<_>>())
    };
    // Python runs when a stream object goes, so the lock is not held here.
    drop(unused);
    if let Some(stream) = known {
        return Ok(stream);
    }
    checked(|| {
        let context = context(index)?;
        context.bind_to_thread()?;
        // SAFETY: by the contract the stream exists as long as its owner, who is kept.
        let stream = unsafe { context.wrap_borrowed_stream(handle as sys::CUstream) };
        let entry = (index, handle, Arc::downgrade(&stream), owner());
        BORROWED.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
        Ok(stream)
    })
}

/// A stream of another owner as cudarc knows it. Dropping it leaves the stream as it is.
///
/// # Safety
///
/// The handle is that of a stream of this device, which exists as long as what is returned is used.
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
