//! The call of a declared function: detached from the interpreter where that is safe and worthwhile.
//!
//! A function is detached by itself when neither its arguments nor its result need Python, its arrays
//! are large, and nobody else can write to them: copies that were made for the call, and arrays of
//! frameworks whose arrays never change. Whoever shares the memory of such an array and writes to it
//! breaks the rules of its framework as well, whose threads read it at any time. NumPy's read-only
//! flag does not count: it belongs to one array, not to the memory. With `detach = copy`, the arrays that
//! others can write to were copied when they were opened, so that none of them is left.

use std::cell::Cell;

use super::{Exposure, RustCall};
use crate::memory::cast::DETACH_FROM;

/// A function and its arguments.
///
/// The compiler finds out whether the types may be used while detached: `(&attempt).__call(call)` is
/// the method of [`Detachable`] where that exists. Otherwise it is the method of [`Attached`], which
/// needs one more reference. No trait of an author has a method of this name, which would be a third one.
pub struct Attempt<A, R> {
    arguments: Cell<Option<A>>,
    body: fn(A) -> R,
}

impl<A, R> Attempt<A, R> {
    /// The arguments as a tuple, and what calls the function with them.
    pub fn new(arguments: A, body: fn(A) -> R) -> Attempt<A, R> {
        Attempt { arguments: Cell::new(Some(arguments)), body }
    }

    fn take_arguments(&self) -> A {
        self.arguments.take().expect("a function is called once")
    }
}

/// A function that may be called detached.
pub trait Detachable<R> {
    /// Calls the function.
    fn __call(&self, call: &RustCall<'_, '_>) -> R;
}

impl<A: Send, R: Send> Detachable<R> for Attempt<A, R> {
    fn __call(&self, call: &RustCall<'_, '_>) -> R {
        let (arguments, body) = (self.take_arguments(), self.body);
        let Exposure { private_bytes, on_host, on_device } = &call.exposure;
        let large = private_bytes.get() >= DETACH_FROM;
        match large && !on_host.get() && !on_device.get() {
            true => call.py.detach(move || body(arguments)),
            false => body(arguments),
        }
    }
}

/// A function that has to be called attached.
pub trait Attached<R> {
    /// Calls the function.
    fn __call(&self, call: &RustCall<'_, '_>) -> R;
}

impl<A, R> Attached<R> for &Attempt<A, R> {
    fn __call(&self, _: &RustCall<'_, '_>) -> R {
        (self.body)(self.take_arguments())
    }
}

impl RustCall<'_, '_> {
    /// Runs a function detached.
    ///
    /// # Safety
    ///
    /// No Python code writes to the function's arrays, or reads those that it writes, while it runs.
    pub unsafe fn detach<R: Send>(&self, body: impl FnOnce() -> R + Send) -> R {
        self.py.detach(body)
    }

    /// Runs a function detached, unless others can write to its arrays. Those on a device do not count:
    /// kernels read them, in the order of streams, and not the function.
    pub fn detach_if_private<R: Send>(&self, body: impl FnOnce() -> R + Send) -> R {
        if self.exposure.on_host.get() { body() } else { self.py.detach(body) }
    }
}
