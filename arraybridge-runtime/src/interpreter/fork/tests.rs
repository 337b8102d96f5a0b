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
            thread::sleep(Duration::from_millis(1));
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
