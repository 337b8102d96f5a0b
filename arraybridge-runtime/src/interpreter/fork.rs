//! The state that a forked process inherits: one thread, the locks as they were, and a CUDA that
//! does not work.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCFunction, PyDict};

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
    WATCHED.get_or_init(py, || {
        locks::hold_during_forks(locks);
        // A system without `fork` lacks the function.
        let _ = note_initialized_cuda(py);
    });
}

/// Notes in a child whether CUDA was initialized in its parent. The child cannot find out: a driver that has
/// lost its threads gives the same answer as one that was never initialized.
fn note_initialized_cuda(py: Python<'_>) -> PyResult<()> {
    static WAS_INITIALIZED: AtomicBool = AtomicBool::new(false);
    let before = PyCFunction::new_closure(py, None, None, |_, _| {
        WAS_INITIALIZED.store(is_cuda_initialized(), Ordering::Relaxed);
    })?;
    let after_in_child = PyCFunction::new_closure(py, None, None, |_, _| {
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
mod tests {
    use std::any::Any;
    use std::process::Command;
    use std::sync::{Mutex, mpsc};
    use std::thread;

    use super::*;

    static LOCK: Mutex<()> = Mutex::new(());
    static IN_CHILD: InChild = InChild(AtomicBool::new(false));
    static LOCKS: [&[&dyn Lock]; 2] = [&[&LOCK], &[&IN_CHILD]];

    /// A flag that is true in a child.
    struct InChild(AtomicBool);

    impl Lock for InChild {
        fn hold(&'static self) -> Box<dyn Any> {
            Box::new(())
        }

        fn after_fork_in_child(&'static self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_child_does_not_inherit_a_lock_that_another_thread_held_and_is_noted() {
        // Locks are registered once in a process, and another test may have done that here.
        let name = "interpreter::fork::tests::children_find_the_lock_free_and_are_noted";
        let tests = std::env::current_exe().unwrap();
        let run = Command::new(tests).args(["--exact", name, "--ignored"]).output().unwrap();
        let out = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success() && out.contains("1 passed"), "{out}");
    }

    #[test]
    #[ignore = "the test above runs it in a process of its own"]
    fn children_find_the_lock_free_and_are_noted() {
        locks::hold_during_forks(&LOCKS);
        let (started, starts) = mpsc::channel();
        let (stop, stops) = mpsc::channel::<()>();
        let busy = thread::spawn(move || {
            let mut turns = 0;
            while stops.try_recv() == Err(mpsc::TryRecvError::Empty) {
                let _held = LOCK.lock().unwrap();
                turns += 1;
                if turns == 3 {
                    started.send(()).unwrap();
                }
                // It holds the lock nearly all the time.
                thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        starts.recv().unwrap();
        for _ in 0..20 {
            // SAFETY: the child calls nothing that needs another thread, and ends at once.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let is_noted = IN_CHILD.0.load(Ordering::Relaxed);
                let status = i32::from(LOCK.try_lock().is_err() || !is_noted);
                // SAFETY: this ends the child without any cleanup.
                unsafe { libc::_exit(status) };
            }
            let mut status = 0;
            // SAFETY: the child exists, and the status is written to a local.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(status, 0, "the child found the lock taken, or was not noted");
        }
        assert!(!IN_CHILD.0.load(Ordering::Relaxed));
        drop(stop);
        busy.join().unwrap();
    }
}
