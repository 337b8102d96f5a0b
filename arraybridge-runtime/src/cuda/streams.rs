//! The frameworks' current streams, and memory that one framework lends to another.
//!
//! The rules are in the section "Streams" of ARCHITECTURE.md.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCFunction, PyInt};

use crate::framework::device::Device;
use crate::framework::loaded::{self, Loaded};
use crate::framework::spec::Framework;
use crate::interpreter::detached::DetachedRef;
use crate::interpreter::fork;
use crate::interpreter::once::Once;
use arraybridge_tensor::cuda::driver::{self, Event};
use arraybridge_tensor::dlpack::LEGACY_STREAM;

/// Runs `body` with a device made current in a framework. No stream is entered.
pub fn with_device<'py, T>(
    loaded: Loaded<'py>,
    index: usize,
    body: impl FnOnce() -> PyResult<T>,
) -> PyResult<T> {
    release_finished();
    if loaded.current_device()? == index {
        return body();
    }
    loaded.within(Device::Accelerator(index), |_| body())
}

/// A framework's current stream on this thread.
pub struct Current<'py> {
    /// Its handle; 1 for the legacy default stream.
    pub handle: usize,
    /// The framework's object, which keeps the stream alive.
    pub object: Bound<'py, PyAny>,
}

/// The current stream of a framework; `None` if the framework does not expose its streams.
pub fn current<'py>(loaded: Loaded<'py>, index: usize) -> PyResult<Option<Current<'py>>> {
    let py = loaded.py();
    let Some(streams) = &loaded.framework.stream else { return Ok(None) };
    let device = loaded.device_object(Device::Accelerator(index))?;
    let device = device.unwrap_or_else(|| py.None().into_bound(py));
    let number = PyInt::new(py, index);
    let object = streams.current.call(loaded, [&device, number.as_any()])?;
    let handle: usize = streams.handle.call(loaded, [&object])?.extract()?;
    // For DLPack and the driver the legacy default stream is 1, for frameworks 0.
    Ok(Some(Current { handle: handle.max(LEGACY_STREAM), object }))
}

/// Runs `body`, which copies memory of the first device on a stream of the second. The current streams of a framework
/// on both devices are ordered before and after, since not every framework does so.
pub fn between<T>(
    loaded: Loaded<'_>,
    devices: (Device, Device),
    body: impl FnOnce() -> PyResult<T>,
) -> PyResult<T> {
    let (Device::Accelerator(from), Device::Accelerator(to)) = devices else { return body() };
    // Without a driver there are no streams.
    if !driver::is_present() {
        return body();
    }
    let (Some(there), Some(here)) = (current(loaded, from)?, current(loaded, to)?) else {
        return body();
    };
    // SAFETY: each stream is of its device, and its object is held here.
    unsafe { driver::order_devices((from, there.handle), (to, here.handle)) }?;
    let made = body();
    // SAFETY: as above.
    unsafe { driver::order_devices((to, here.handle), (from, there.handle)) }?;
    made
}

/// Memory of one framework that work of another one may still use.
pub struct Loan<'py> {
    /// The framework that allocated the memory.
    pub lender: &'static Framework,
    /// Keeps the memory alive.
    pub owner: Bound<'py, PyAny>,
}

/// Ends loans of memory on a device to a framework whose current stream there may still read it.
pub fn give_back<'py>(
    borrower: Loaded<'py>,
    index: usize,
    loans: impl IntoIterator<Item = Loan<'py>>,
) {
    let mut loans = loans.into_iter().peekable();
    if loans.peek().is_none() || !driver::is_present() {
        return;
    }
    match current(borrower, index) {
        // SAFETY: the stream is of this device, and its object is held here.
        Ok(Some(stream)) => unsafe { end_loans(borrower.py(), index, stream.handle, loans) },
        // What it makes is waited for.
        _ if borrower.framework.ready.is_some() => {}
        // After a failure there is nothing left to wait for.
        _ => drop(driver::wait_for_device(index)),
    }
}

/// Ends loans once the work that uses the memory is on a stream of a device.
///
/// The lender's current stream waits for that stream, so the lender can reuse the memory in its own
/// order. A lender without a stream to order gets its memory back when the work is done.
///
/// # Safety
///
/// The handle is that of a stream on this device, and the stream is alive.
pub unsafe fn end_loans<'py>(
    py: Python<'py>,
    index: usize,
    borrower: usize,
    loans: impl IntoIterator<Item = Loan<'py>>,
) {
    let mut ordered = Vec::new();
    for Loan { lender, owner } in loans {
        if ordered.contains(&lender.memory_type) {
            continue;
        }
        // SAFETY: the borrower's stream is of this device, and alive.
        if unsafe { lender_waits(py, index, borrower, lender) } {
            ordered.push(lender.memory_type);
        } else {
            drain_at_exit(py);
            // SAFETY: the borrower's stream is of this device, and alive.
            unsafe { keep_until_done(index, borrower, Box::new(DetachedRef::from(owner))) };
        }
    }
}

/// Makes the lender's current stream wait for the borrower's; false where that cannot be done.
///
/// # Safety
///
/// The handle is that of a stream on this device, and the stream is alive.
unsafe fn lender_waits(
    py: Python<'_>,
    index: usize,
    borrower: usize,
    lender: &'static Framework,
) -> bool {
    let Ok(loaded) = loaded::load(py, lender) else { return false };
    let Ok(Some(lender)) = current(loaded, index) else { return false };
    // SAFETY: both streams are of this device; the borrower's is alive, and the lender's object is held.
    unsafe { driver::order(index, borrower, lender.handle) }.is_ok()
}

/// An owner that is kept until an event has happened.
pub(super) struct Kept {
    event: Event,
    // Kept alive only.
    _owner: Box<dyn Send>,
}

pub(super) static KEPT: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

/// The length of the list, read without its lock.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The length of the list beyond which the host waits for the oldest entry.
const LIMIT: usize = 256;

fn kept() -> MutexGuard<'static, Vec<Kept>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps an owner until a stream has done the work that it has now. Nothing waits for that:
/// [`release_finished`] drops the owners whose work is done.
///
/// # Safety
///
/// The handle is that of a stream on this device, and the stream is alive.
pub unsafe fn keep_until_done(index: usize, stream: usize, owner: Box<dyn Send>) {
    // SAFETY: the stream is of this device, and alive.
    let Ok(event) = (unsafe { Event::at_end_of(index, stream) }) else {
        // It is not known when the work is done, so the memory is leaked.
        std::mem::forget(owner);
        return;
    };
    let oldest = {
        let mut kept = kept();
        kept.push(Kept { event, _owner: owner });
        let oldest = (kept.len() > LIMIT).then(|| kept.remove(0));
        COUNT.store(kept.len(), Ordering::Relaxed);
        oldest
    };
    if let Some(oldest) = oldest {
        let _ = oldest.event.wait();
        drop(oldest);
        release_finished();
    }
}

/// Drops the owners whose work is done.
#[inline]
pub fn release_finished() {
    if COUNT.load(Ordering::Relaxed) > 0 {
        release(|kept| kept.event.is_done().unwrap_or(false));
    }
}

#[cold]
fn release(is_over: impl Fn(&Kept) -> bool) {
    let over: Vec<Kept> = {
        let mut kept = kept();
        let over = kept.extract_if(.., |kept| is_over(kept)).collect();
        COUNT.store(kept.len(), Ordering::Relaxed);
        over
    };
    // Dropping an owner may run Python, so the lock is not held here.
    drop(over);
}

/// Makes the end of the interpreter wait for the kept owners, while the frameworks can still release them.
pub fn drain_at_exit(py: Python<'_>) {
    static REGISTERED: PyOnceLock<()> = PyOnceLock::new();
    let register = || -> PyResult<()> {
        let drain = PyCFunction::new_closure(py, None, None, |_, _| {
            let all = {
                let mut kept = kept();
                COUNT.store(0, Ordering::Relaxed);
                std::mem::take(&mut *kept)
            };
            if fork::has_lost_cuda() {
                // The parent has it, and gives it back.
                std::mem::forget(all);
                return;
            }
            for kept in &all {
                let _ = kept.event.wait();
            }
        })?;
        py.import("atexit")?.call_method1("register", (drain,)).map(drop)
    };
    // If this fails, the operating system frees the memory.
    let _ = REGISTERED.try_once(py, register);
}
