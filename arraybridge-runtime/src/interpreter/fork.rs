//! The state that a forked process inherits: one thread, the locks as they were, and a CUDA that
//! does not work.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCFunction, PyDict, PyString};

use arraybridge_host::process::Lock;
pub use arraybridge_tensor::cuda::fork::has_lost_cuda;
use arraybridge_tensor::cuda::fork::{is_cuda_initialized, note_lost_cuda};

/// The reason why a forked process cannot use CUDA, and the way out.
pub const LOST_CUDA: &str = "this process was forked after CUDA had been initialized, and CUDA does not work in it; start worker \
     processes with multiprocessing's \"spawn\" or \"forkserver\" method, or fork before CUDA is used";

/// The locks of some rooms.
pub type Locks = &'static [&'static [&'static dyn Lock]];

static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// Returns whether this process was forked from one that had this package. It lacks the threads of
/// the frameworks, and they may wait for them for ever.
#[inline]
pub fn is_child() -> bool {
    IS_CHILD.load(Ordering::Relaxed)
}

/// Adds [`LOST_CUDA`] to the reason of an error, if that is what is behind it.
pub fn with_lost_cuda(reason: String) -> String {
    if has_lost_cuda() { format!("{reason}; {LOST_CUDA}") } else { reason }
}

/// Prepares for forks, once. The locks are given in the order in which they are taken where one is taken
/// while another is held.
pub fn watch(py: Python<'_>, locks: Locks) {
    static WATCHED: PyOnceLock<()> = PyOnceLock::new();
    #[expect(clippy::disallowed_methods, reason = "forks are not watched before")]
    WATCHED.get_or_init(py, || {
        locks::hold_during_forks(locks);
        // A system without `fork` lacks the function.
        let _ = add_hooks(py);
    });
}

/// How long a fork waits for a first use, which may wait for the thread that forks.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// The number of threads that make something for the first time.
static MAKING: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// While it lives, forks in other threads wait.
pub struct Making(());

/// Begins to make something for the first time, of which a child must not inherit a half.
#[cold]
pub fn making() -> Making {
    if DEPTH.replace(DEPTH.get() + 1) == 0 {
        MAKING.fetch_add(1, Ordering::SeqCst);
    }
    Making(())
}

impl Drop for Making {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
        if DEPTH.get() == 0 {
            MAKING.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Waits for what other threads make for the first time, and for the package's modules that they import.
fn wait_for_makers(py: Python<'_>) {
    let start = Instant::now();
    let is_making = || MAKING.load(Ordering::SeqCst) > 0 || is_importing(py).unwrap_or(false);
    while DEPTH.get() == 0 && start.elapsed() < MAX_WAIT && is_making() {
        py.detach(|| thread::sleep(Duration::from_millis(1)));
    }
}

/// Returns whether a module of the package is being imported.
fn is_importing(py: Python<'_>) -> PyResult<bool> {
    let modules = py.import("sys")?.getattr("modules")?.cast_into::<PyDict>()?.copy()?;
    for (name, module) in modules {
        let name = name.cast::<PyString>()?.to_str()?;
        if name.starts_with("arraybridge")
            && module
                .getattr("__spec__")?
                .getattr("_initializing")
                .is_ok_and(|is| is.is_truthy().unwrap_or(false))
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Has forks wait for what other threads make, and notes in a child whether CUDA was initialized in its parent. The child
/// cannot find out: a driver that has lost its threads gives the same answer as one that was never initialized.
fn add_hooks(py: Python<'_>) -> PyResult<()> {
    static WAS_INITIALIZED: AtomicBool = AtomicBool::new(false);
    let before = PyCFunction::new_closure(py, None, None, |arguments, _| {
        wait_for_makers(arguments.py());
        WAS_INITIALIZED.store(is_cuda_initialized(), Ordering::Relaxed);
    })?;
    let after_in_child = PyCFunction::new_closure(py, None, None, |_, _| {
        MAKING.store(usize::from(DEPTH.get() > 0), Ordering::SeqCst);
        if WAS_INITIALIZED.load(Ordering::Relaxed) {
            note_lost_cuda();
        }
        IS_CHILD.store(true, Ordering::Relaxed);
    })?;
    let hooks = PyDict::new(py);
    hooks.set_item("before", before)?;
    hooks.set_item("after_in_child", after_in_child)?;
    py.import("os")?.call_method("register_at_fork", (), Some(&hooks)).map(drop)
}

#[cfg(target_os = "linux")]
mod locks {
    use std::any::Any;
    use std::cell::RefCell;
    use std::sync::OnceLock;

    use super::{Lock, Locks};

    static LOCKS: OnceLock<Locks> = OnceLock::new();

    fn all() -> impl Iterator<Item = &'static dyn Lock> {
        LOCKS.get().copied().unwrap_or_default().iter().copied().flatten().copied()
    }

    thread_local! {
        static HELD: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
    }

    /// Holds the locks while the process is forked. If another thread held one of them at that moment, it
    /// would be locked forever in the child, which does not have that thread.
    ///
    /// Python's own hooks do not serve here: Python code runs between them, which may take the same locks.
    pub(super) fn hold_during_forks(locks: Locks) {
        if LOCKS.set(locks).is_ok() {
            // SAFETY: the functions do not unwind, and an extension module is never unloaded.
            unsafe { libc::pthread_atfork(Some(hold), Some(release), Some(release_in_child)) };
        }
    }

    extern "C" fn hold() {
        let _ = HELD.try_with(|held| held.borrow_mut().extend(all().map(|lock| lock.hold())));
    }

    extern "C" fn release() {
        let _ = HELD.try_with(|held| held.borrow_mut().clear());
    }

    extern "C" fn release_in_child() {
        release();
        all().for_each(|lock| lock.after_fork_in_child());
    }
}

#[cfg(not(target_os = "linux"))]
mod locks {
    pub(super) fn hold_during_forks(_locks: super::Locks) {}
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
