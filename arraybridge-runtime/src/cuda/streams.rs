//! The streams that work is put on, and memory that one framework lends to another.
//!
//! The section "Streams" of ARCHITECTURE.md has the rules that are kept here.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCFunction, PyInt};

use crate::cuda::driver::{self, Event, LEGACY_STREAM};
use crate::framework::device::{self, Device};
use crate::framework::endpoints::Endpoints;
use crate::framework::loaded::{self, LoadedFramework};
use crate::framework::spec::Framework;
use crate::interpreter::held::Held;

/// Runs `body` with a device made current in a framework.
///
/// # Errors
///
/// What `body` returns, and what the framework raises.
pub fn on_device<'py, T>(
    py: Python<'py>,
    loaded: &LoadedFramework,
    index: usize,
    body: impl FnOnce() -> PyResult<T>,
) -> PyResult<T> {
    release_finished();
    if device::current(py, loaded)? == index {
        return body();
    }
    device::within(py, loaded, Device::Accelerator(index), |_| body())
}

/// The stream that a framework of this thread puts its work on.
pub struct Current<'py> {
    /// Its number; that of the legacy default stream is always 1.
    pub handle: usize,
    /// The framework's object, which keeps the stream alive.
    pub object: Bound<'py, PyAny>,
}

/// The current stream of a framework; `None` for a framework that keeps its streams to itself.
///
/// # Errors
///
/// What the framework raises.
pub fn current<'py>(
    py: Python<'py>,
    loaded: &LoadedFramework,
    index: usize,
) -> PyResult<Option<Current<'py>>> {
    let Some(streams) = &loaded.framework.stream else { return Ok(None) };
    let device = device::object(py, loaded, Device::Accelerator(index))?;
    let device = device.unwrap_or_else(|| py.None().into_bound(py));
    let (module, number) = (loaded.module(py), PyInt::new(py, index));
    let object = streams.current.call(py, [module, &device, number.as_any()])?;
    let handle: usize = streams.handle.call(py, [module, &object])?.extract()?;
    // DLPack and the driver number the legacy default stream 1, frameworks 0.
    Ok(Some(Current { handle: handle.max(LEGACY_STREAM), object }))
}

/// Memory of one framework that work of another one may still use.
pub struct Loan<'py> {
    /// The framework that allocated the memory.
    pub lender: &'static Framework,
    /// Keeps the memory alive.
    pub owner: Bound<'py, PyAny>,
}

/// Ends loans when the work that uses the memory has been put on a stream of a device.
///
/// The lender's current stream waits for that stream, so the lender can use the memory again in its
/// own order. A lender without a stream to order gets its memory back when the work is done.
///
/// # Safety
///
/// The handle is that of a stream of this device which is not destroyed.
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
        // SAFETY: the borrower's stream exists by the contract.
        if unsafe { lender_waits(py, index, borrower, lender) } {
            ordered.push(lender.memory_type);
        } else {
            drain_at_exit(py);
            // SAFETY: the borrower's stream exists by the contract.
            unsafe { keep_until_done(index, borrower, Box::new(Held::from(owner))) };
        }
    }
}

/// Makes the lender's current stream wait for the borrower's; false where that cannot be done.
///
/// # Safety
///
/// As [`end_loans`].
unsafe fn lender_waits(
    py: Python<'_>,
    index: usize,
    borrower: usize,
    lender: &'static Framework,
) -> bool {
    let Ok(loaded) = loaded::load(py, lender, Endpoints::of(lender)) else { return false };
    let Ok(Some(lender)) = current(py, loaded, index) else { return false };
    // SAFETY: the borrower's stream exists by the contract, the lender's as long as its object.
    unsafe { driver::order(index, borrower, lender.handle) }.is_ok()
}

/// Something that is kept until work is done.
struct Kept {
    event: Event,
    // Held for its drop.
    _owner: Box<dyn Send>,
}

static KEPT: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

/// The length of the list, read without its lock.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// With more than this the host waits for the oldest.
const LIMIT: usize = 256;

fn kept() -> MutexGuard<'static, Vec<Kept>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps an owner until a stream has done the work that it has now. Nothing waits for that, and
/// [`release_finished`] lets go of what is done.
///
/// # Safety
///
/// As [`end_loans`].
pub unsafe fn keep_until_done(index: usize, stream: usize, owner: Box<dyn Send>) {
    // SAFETY: the stream exists by the contract.
    match unsafe { Event::at_end_of(index, stream) } {
        Ok(event) => {
            let mut kept = kept();
            kept.push(Kept { event, _owner: owner });
            COUNT.store(kept.len(), Ordering::Relaxed);
        }
        // Nobody can say when the memory is free, so it is never used again.
        Err(_) => std::mem::forget(owner),
    }
    if COUNT.load(Ordering::Relaxed) > LIMIT {
        let oldest = kept().remove(0);
        let _ = oldest.event.wait();
        drop(oldest);
        release_finished();
    }
}

/// Lets go of what was kept for work that is done.
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
    // Python runs when an owner goes, so the lock is not held here.
    drop(over);
}

/// Has the interpreter's end wait for what is kept, while the frameworks can still take it back.
pub fn drain_at_exit(py: Python<'_>) {
    static REGISTERED: PyOnceLock<()> = PyOnceLock::new();
    let register = || -> PyResult<()> {
        let drain = PyCFunction::new_closure(py, None, None, |_, _| {
            let all = std::mem::take(&mut *kept());
            COUNT.store(0, Ordering::Relaxed);
            for kept in &all {
                let _ = kept.event.wait();
            }
        })?;
        py.import("atexit")?.call_method1("register", (drain,)).map(drop)
    };
    // Without it the process ends with the memory.
    let _ = REGISTERED.get_or_try_init(py, register);
}
