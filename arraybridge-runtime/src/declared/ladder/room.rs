//! The experience of a function's earlier calls with the length of leads for which memory suffices.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;

use crate::interpreter::error::attempt;

/// The arguments of a call: the frameworks, dtypes and shapes of the arrays, but not how long the lead is and
/// what is cut with it, and everything else.
pub struct Traits(pub(super) Vec<Trait>);

/// A trait that calls have in common if they are alike.
pub(super) enum Trait {
    /// An index, or a number of axes, elements or arguments.
    Number(usize),
    /// A weak reference. An object has the same one as long as it is alive, and a new object at its address has another.
    Object(Py<PyAny>),
    /// An object that has no weak references but a hash, so that it does not change: a number, a
    /// string or a dtype.
    Value(Py<PyAny>),
}

impl Traits {
    /// Returns whether two calls are alike.
    pub fn is_like(&self, py: Python<'_>, other: &Traits) -> bool {
        self.0.len() == other.0.len()
            && self.0.iter().zip(&other.0).all(|(one, other)| one.is_like(py, other))
    }

    /// Visits the objects, for the garbage collector.
    ///
    /// # Errors
    ///
    /// Any error that the visitor returns.
    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.0.iter().try_for_each(|found| match found {
            Trait::Number(_) => Ok(()),
            Trait::Object(object) | Trait::Value(object) => visit.call(object),
        })
    }
}

impl Trait {
    fn is_like(&self, py: Python<'_>, other: &Trait) -> bool {
        match (self, other) {
            (Trait::Number(one), Trait::Number(other)) => one == other,
            (Trait::Object(one), Trait::Object(other)) => one.is(other),
            (Trait::Value(one), Trait::Value(other)) => {
                let (one, other) = (one.bind(py), other.bind(py));
                // 1 and True are equal.
                let has_type = one.get_type().is(other.get_type());
                one.is(other) || (has_type && attempt(py, one.eq(other)).unwrap_or(false))
            }
            _ => false,
        }
    }
}

/// The number of calls with a lead that did not fit as a whole after which the whole is tried
/// again: memory may have become free.
const TRIED_AGAIN: usize = 32;

/// The number of unlike calls of which a function remembers that they were split.
const MOST_KNOWN: usize = 4;

/// The calls of a function that had to be split.
///
/// Nobody waits for the lock, which another thread may have held when the process was forked. What is not found is
/// found out again.
pub struct Room {
    was_short: AtomicBool,
    /// The last ones, which are not like each other.
    known: Mutex<VecDeque<Arc<KnownCalls>>>,
}

/// The known facts about calls that are alike.
pub struct KnownCalls {
    traits: Traits,
    /// The longest part that fitted.
    part: AtomicUsize,
    /// The shortest lead that had to be split.
    exceeded: AtomicUsize,
    /// The number of calls that were split without trying the whole.
    split: AtomicUsize,
}

impl Room {
    /// The room of a function that was not called yet.
    pub const fn new() -> Room {
        Room { was_short: AtomicBool::new(false), known: Mutex::new(VecDeque::new()) }
    }

    /// Returns whether a call had to be split.
    #[inline]
    pub fn was_short(&self) -> bool {
        self.was_short.load(Ordering::Relaxed)
    }

    /// The known facts about calls like this one.
    pub(super) fn known(&self, py: Python<'_>, traits: &Traits) -> Option<Arc<KnownCalls>> {
        // To compare them may run Python code, for which the lock must not be held.
        let known = self.known.try_lock().ok()?.clone();
        known.into_iter().find(|known| known.traits.is_like(py, traits))
    }

    /// Notes a call that had to be split.
    pub(super) fn note_split(&self, py: Python<'_>, split: KnownCalls) {
        if let Some(known) = self.known(py, &split.traits) {
            known.part.store(split.part(), Ordering::Relaxed);
            known.exceeded.fetch_min(split.exceeded.into_inner(), Ordering::Relaxed);
            return;
        }
        // What is dropped may run Python code, too.
        let _oldest = self.known.try_lock().ok().and_then(|mut all| {
            all.push_back(Arc::new(split));
            self.was_short.store(true, Ordering::Relaxed);
            if all.len() > MOST_KNOWN { all.pop_front() } else { None }
        });
    }

    /// Forgets calls for which the whole fits now.
    pub(super) fn forget(&self, known: &Arc<KnownCalls>) {
        if let Ok(mut all) = self.known.try_lock() {
            all.retain(|other| !Arc::ptr_eq(other, known));
            self.was_short.store(!all.is_empty(), Ordering::Relaxed);
        }
    }

    /// Visits what is known, for the garbage collector.
    ///
    /// # Errors
    ///
    /// Any error that the visitor returns.
    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Ok(all) = self.known.try_lock() else { return Ok(()) };
        all.iter().try_for_each(|known| known.traits.visit(visit))
    }
}

impl KnownCalls {
    /// A lead of this length had to be split, and the parts that gave the result had that one.
    pub(super) fn new(traits: Traits, extent: usize, part: usize) -> KnownCalls {
        let (part, exceeded) = (AtomicUsize::new(part), AtomicUsize::new(extent));
        KnownCalls { traits, part, exceeded, split: AtomicUsize::new(0) }
    }

    /// The longest part that fitted.
    pub fn part(&self) -> usize {
        self.part.load(Ordering::Relaxed)
    }

    /// Returns whether a lead as long as this had to be split.
    pub fn is_short_for(&self, extent: usize) -> bool {
        extent >= self.exceeded.load(Ordering::Relaxed)
    }

    /// Returns whether a lead as long as this should be split at once.
    pub fn begins_with_parts(&self, extent: usize) -> bool {
        self.is_short_for(extent)
            && self.split.fetch_add(1, Ordering::Relaxed) % TRIED_AGAIN != TRIED_AGAIN - 1
    }
}
