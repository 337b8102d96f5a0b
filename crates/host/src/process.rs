//! The state that a process has once: tables that its extension modules share, and locks that a
//! fork holds.
//!
//! Each extension module is linked with its own copy of this crate and of its statics. State that must be
//! unique in the process is reached through a `#[repr(C)]` table: the module's own table at first, and the
//! table of the `arraybridge` package once the module has joined that. `c_api` puts the tables into one
//! capsule.

use std::any::Any;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

/// The module's own table, or that of the package.
pub struct Shared<T: 'static> {
    own: &'static T,
    joined: AtomicPtr<T>,
}

impl<T: Sync> Shared<T> {
    /// Starts with the module's own table.
    pub const fn new(own: &'static T) -> Shared<T> {
        Shared { own, joined: AtomicPtr::new(ptr::null_mut()) }
    }

    /// The module's own table.
    pub const fn own(&self) -> &'static T {
        self.own
    }

    /// The table in use.
    #[inline]
    pub fn get(&self) -> &'static T {
        let joined = NonNull::new(self.joined.load(Ordering::Acquire));
        // SAFETY: `join` stores references with static lifetime only.
        joined.map_or(self.own, |table| unsafe { table.as_ref() })
    }

    /// Switches to another module's table.
    pub fn join(&self, table: &'static T) {
        self.joined.store(ptr::from_ref(table).cast_mut(), Ordering::Release);
    }
}

/// A lock that threads take which are not attached to the interpreter.
pub trait Lock: Sync {
    /// Takes the lock. It is released when the result is dropped.
    fn hold(&'static self) -> Box<dyn Any>;

    /// Called in a forked process, which has only the thread that forked.
    fn after_fork_in_child(&'static self) {}
}

impl<T: Send> Lock for Mutex<T> {
    fn hold(&'static self) -> Box<dyn Any> {
        Box::new(self.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ThreadSanitizer sees the race if the table is found before it is written.
    #[test]
    fn another_thread_finds_a_table_that_is_written() {
        static OWN: u32 = 1;
        static TABLE: Shared<u32> = Shared::new(&OWN);
        std::thread::scope(|scope| {
            scope.spawn(|| TABLE.join(Box::leak(Box::new(2))));
            while *TABLE.get() == OWN {
                std::thread::yield_now();
            }
        });
        assert_eq!((*TABLE.get(), *TABLE.own()), (2, 1));
    }
}
