//! The registry of claims.

mod claimed;
mod places;

use std::any::Any;
use std::num::NonZeroU64;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use self::claimed::{Claimant, ClaimedMemory, Elements, Found, span};
use self::places::Places;
use super::{Conflict, User, Wanted};
use arraybridge_host::overlap::Strided;
use arraybridge_host::process::Lock;

/// The claims that are not released yet.
pub struct Registry(Mutex<Claims>);

struct Claims {
    /// The first claimed memory, in the order of the claims. To look through so few is faster than any search.
    few: Vec<(u64, ClaimedMemory)>,
    /// The others, by their places.
    many: Places,
    /// The number of all claimed memory so far, which tells one from the other.
    count: u64,
    /// The ticket of the last claim.
    last: u64,
}

/// The greatest number of claims that are looked through one by one.
const FEW: usize = 16;

/// The registry of this module.
pub static REGISTRY: Registry = Registry::new();

impl Lock for Registry {
    fn hold(&'static self) -> Box<dyn Any> {
        self.0.hold()
    }

    fn after_fork_in_child(&'static self) {
        self.forget_other_threads();
    }
}

thread_local! {
    static PLACE: u8 = const { 0 };
}

/// A number that no other thread of this process has while this one runs, and that a fork keeps.
#[inline]
fn this_thread() -> usize {
    PLACE.with(|place| ptr::from_ref(place).addr())
}

impl Registry {
    const fn new() -> Registry {
        Registry(Mutex::new(Claims { few: Vec::new(), many: Places::new(), count: 0, last: 0 }))
    }

    fn lock(&self) -> MutexGuard<'_, Claims> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims all of the wanted memory, or none, and returns a ticket.
    pub fn claim(&self, wanted: &[Wanted<'_>]) -> Result<NonZeroU64, Conflict> {
        let state = &mut *self.lock();
        state.last += 1;
        let (ticket, thread) = (state.last, this_thread());
        for (index, wanted) in wanted.iter().enumerate() {
            let by = Claimant { ticket, user: wanted.user, writes: wanted.writes, thread };
            if let Err((other, certain)) = state.add(by, wanted.memory()) {
                state.release(ticket);
                let Claimant { user, writes, .. } = other;
                let own = other.ticket == ticket;
                return Err(Conflict { wanted: index, user, writes, certain, own });
            }
        }
        Ok(NonZeroU64::new(ticket).expect("tickets are counted from 1"))
    }

    /// Claims memory with a ticket of the caller's, which may have several claims. Returns whether it was free.
    pub fn borrow(&self, ticket: u64, memory: Strided<'_>, writes: bool) -> bool {
        let by = Claimant { ticket, user: User::RUST_NUMPY, writes, thread: this_thread() };
        self.lock().add(by, memory).is_ok()
    }

    /// Releases the last claim of a ticket that may have several.
    pub fn give_back(&self, ticket: u64) {
        let Claims { few, many, .. } = &mut *self.lock();
        let place = few.iter().rposition(|(_, entry)| entry.by.ticket == ticket);
        match (place, many.last_of(ticket)) {
            (Some(place), last) if last.is_none_or(|last| last < few[place].0) => {
                few.remove(place);
            }
            (_, Some(last)) => many.remove(ticket, last),
            _ => {}
        }
    }

    /// Releases what functions claimed on other threads. A forked process lacks those threads, so that the functions
    /// never return. All others may belong to any thread, and keep their claims.
    fn forget_other_threads(&self) {
        let here = this_thread();
        let stays =
            |entry: &ClaimedMemory| entry.by.thread == here || !entry.by.user.is_parameter();
        let Claims { few, many, .. } = &mut *self.lock();
        few.retain(|(_, entry)| stays(entry));
        many.retain(stays);
    }

    /// Releases the memory of a claim.
    pub fn release(&self, ticket: u64) {
        self.lock().release(ticket);
    }
}

impl Claims {
    /// Adds claimed memory, or returns what [`Claims::conflict`] found.
    #[inline]
    fn add(&mut self, by: Claimant, memory: Strided<'_>) -> Result<(), Found> {
        let (range, is_dense) = span(memory);
        if let Some(conflict) = self.conflict(memory, range, by.writes) {
            return Err(conflict);
        }
        let elements = (!is_dense).then(|| Elements::copied(memory));
        let (number, entry) = (self.count, ClaimedMemory { by, range, elements });
        self.count += 1;
        match self.few.len() < FEW {
            true => self.few.push((number, entry)),
            false => self.many.add(number, entry),
        }
        Ok(())
    }

    /// Who has claimed memory that conflicts with a wanted one, and whether that is certain.
    #[inline]
    fn conflict(&self, memory: Strided<'_>, range: (usize, usize), writes: bool) -> Option<Found> {
        let conflict = |entry: &ClaimedMemory| entry.conflict(memory, range, writes);
        let found = self.few.iter().find_map(|(_, entry)| conflict(entry));
        if found.is_some() || self.many.is_empty() {
            return found;
        }
        self.many.find((memory, range), writes, &conflict)
    }

    /// Releases all memory of a ticket.
    #[inline]
    fn release(&mut self, ticket: u64) {
        let Claims { few, many, .. } = self;
        // A claim is mostly released before an older one.
        match few.iter().rposition(|(_, entry)| entry.by.ticket != ticket) {
            Some(place) if place + 1 == few.len() => {
                few.retain(|(_, entry)| entry.by.ticket != ticket);
            }
            place => few.truncate(place.map_or(0, |place| place + 1)),
        }
        while let Some(last) = many.last_of(ticket) {
            many.remove(ticket, last);
        }
    }
}

#[cfg(test)]
mod tests;
