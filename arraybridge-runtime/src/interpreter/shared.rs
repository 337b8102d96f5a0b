//! Tables of C functions that all extension modules of a process share.
//!
//! Each extension module is linked with its own copy of this crate and of its statics. State that must be
//! unique in the process is reached through a `#[repr(C)]` table: the module's own table at first, and the
//! table of the `arraybridge` package once the module has joined that. `c_api` puts the tables into one
//! capsule.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::prelude::*;

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

/// Runs the body of a table's function attached to the interpreter. If it panics, the result is `default`.
pub fn call_guarded<T>(default: T, body: impl FnOnce(Python<'_>) -> T) -> T {
    catch_unwind(AssertUnwindSafe(|| Python::attach(body))).unwrap_or(default)
}
