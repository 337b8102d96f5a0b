//! The experience of a function's earlier calls with the length of leads for which memory suffices. Calls are compared
//! by `arraybridge._declared.room`, once one had to be split.

use arraybridge_runtime::interpreter::package::Part;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::PyTraverseError;
use pyo3::call::PyCallArgs;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;

use arraybridge_runtime::interpreter::error::attempt;

/// The calls of a function that had to be split.
#[derive(Default)]
pub struct Room {
    was_short: AtomicBool,
    calls: OnceLock<Py<PyAny>>,
}

/// A call that is compared with those of a room: what calls have in common if they are alike.
pub(super) struct CallRoom<'a, 'py> {
    room: &'a Room,
    traits: Bound<'py, PyAny>,
}

impl Room {
    /// Returns whether a call had to be split.
    #[inline]
    pub fn was_short(&self) -> bool {
        self.was_short.load(Ordering::Relaxed)
    }

    /// A call with these arguments of the package's `traits`; `None` if it cannot be compared.
    pub(super) fn compare<'py>(
        &self,
        py: Python<'py>,
        arguments: impl PyCallArgs<'py>,
    ) -> Option<CallRoom<'_, 'py>> {
        let read = || Part::Room.get(py)?.getattr("traits")?.call1(arguments);
        let traits = attempt(py, read())?;
        (!traits.is_none()).then_some(CallRoom { room: self, traits })
    }

    /// Visits what is known, for the garbage collector.
    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(self.calls.get())
    }
}

impl<'py> CallRoom<'_, 'py> {
    /// The result of a method of the function's `Room`.
    fn ask(&self, method: &str, arguments: impl PyCallArgs<'py>) -> Option<Bound<'py, PyAny>> {
        let py = self.traits.py();
        let ask = || {
            let calls = match self.room.calls.get() {
                Some(calls) => calls,
                None => {
                    let made = Part::Room.get(py)?.getattr("Room")?.call0()?;
                    self.room.calls.get_or_init(|| made.unbind())
                }
            };
            calls.bind(py).call_method1(method, arguments)
        };
        attempt(py, ask())
    }

    /// The longest part that fitted in a call like this one.
    pub fn part(&self) -> Option<usize> {
        self.ask("part", (&self.traits,))?.extract().ok()
    }

    /// Returns whether a lead as long as this should be split at once.
    pub fn begins_with_parts(&self, extent: usize) -> bool {
        let answer = self.ask("begins_with_parts", (&self.traits, extent));
        answer.is_some_and(|answer| answer.is_truthy().unwrap_or(false))
    }

    /// Notes that a lead of this length had to be split, and the longest part of it.
    pub fn note_split(&self, extent: usize, part: usize) {
        if self.ask("note_split", (&self.traits, extent, part)).is_some() {
            self.room.was_short.store(true, Ordering::Relaxed);
        }
    }

    /// Notes that a lead of this length fitted as a whole.
    pub fn note_whole(&self, extent: usize) {
        if let Some(is_short) = self.ask("note_whole", (&self.traits, extent)) {
            self.room.was_short.store(is_short.is_truthy().unwrap_or(true), Ordering::Relaxed);
        }
    }
}
