//! The call of a declared function itself: without the interpreter where nobody can tell.
//!
//! A function is run detached by itself when neither its arguments nor its result need Python, its
//! arrays are large, and nobody else can write to them: copies that were made for the call, and
//! arrays of frameworks whose arrays never change. Whoever shares such an array's memory and writes
//! there breaks its framework's rule too, whose threads read at any time. A NumPy array that is
//! read-only does not count: the flag is that of one array, not of the memory.

use std::cell::Cell;

use super::Call;
use crate::memory::cast::DETACH_FROM;

/// A function and its arguments.
///
/// Whether the types may leave the interpreter is found by the compiler: `(&attempt).run(call)` is
/// that of [`Detachable`] where it exists, else that of [`Attached`], for which the call has to take
/// one more reference.
pub struct Attempt<A, R> {
    arguments: Cell<Option<A>>,
    body: fn(A) -> R,
}

impl<A, R> Attempt<A, R> {
    /// The arguments as a tuple, and what calls the function with them.
    pub fn new(arguments: A, body: fn(A) -> R) -> Attempt<A, R> {
        Attempt { arguments: Cell::new(Some(arguments)), body }
    }

    fn arguments(&self) -> A {
        self.arguments.take().expect("an attempt is run once")
    }
}

/// What can be run with or without the interpreter.
pub trait Detachable<R> {
    /// Runs the function.
    fn run(&self, call: &Call<'_, '_>) -> R;
}

impl<A: Send, R: Send> Detachable<R> for Attempt<A, R> {
    fn run(&self, call: &Call<'_, '_>) -> R {
        let (arguments, body) = (self.arguments(), self.body);
        match call.untouchable.get() {
            Some(bytes) if bytes >= DETACH_FROM => call.py.detach(move || body(arguments)),
            _ => body(arguments),
        }
    }
}

/// What needs the interpreter.
pub trait Attached<R> {
    /// Runs the function.
    fn run(&self, call: &Call<'_, '_>) -> R;
}

impl<A, R> Attached<R> for &Attempt<A, R> {
    fn run(&self, _: &Call<'_, '_>) -> R {
        (self.body)(self.arguments())
    }
}
