//! Tables of C functions that the extension modules of a process have in common.
//!
//! Each extension module is linked with a copy of this crate, and so has statics of its own. A room
//! that needs one state for the whole process keeps it behind a `#[repr(C)]` table: its own until the
//! module joins the `arraybridge` package, that of the package from then on. `c_api` bundles
//! the tables into one capsule.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::prelude::*;

/// A table of this module, or that of the package.
pub struct Shared<T: 'static> {
    own: &'static T,
    joined: AtomicPtr<T>,
}

impl<T: Sync> Shared<T> {
    /// A table that is the module's own.
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
        // SAFETY: `join` stores nothing but references that are valid for the whole process.
        joined.map_or(self.own, |table| unsafe { table.as_ref() })
    }

    /// Uses another module's table from now on.
    pub fn join(&self, table: &'static T) {
        self.joined.store(ptr::from_ref(table).cast_mut(), Ordering::Release);
    }
}

/// Runs the body of a table's function with the interpreter attached; a panic does not leave the
/// module, and gives `default`.
pub fn call_guarded<T>(default: T, body: impl FnOnce(Python<'_>) -> T) -> T {
    catch_unwind(AssertUnwindSafe(|| Python::attach(body))).unwrap_or(default)
}
