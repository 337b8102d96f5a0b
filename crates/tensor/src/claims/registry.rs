//! The registry of claims.

use std::any::Any;
use std::num::NonZeroU64;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Conflict, User, Wanted};
use arraybridge_host::layout::{self, Dims};
use arraybridge_host::overlap::{Strided, overlap};
use arraybridge_host::process::Lock;

/// The claims that are not released yet.
pub struct Registry(Mutex<Claims>);

struct Claims {
    /// The claimed memory, in the order of the claims.
    entries: Vec<ClaimedMemory>,
    /// The ticket of the last claim.
    last: u64,
}

/// Claimed memory.
struct ClaimedMemory {
    by: Claimant,
    range: (usize, usize),
    /// The elements, unless all of the range is claimed.
    elements: Option<Box<Elements>>,
}

/// The one who claims memory, and whether to write to it.
#[derive(Clone, Copy)]
struct Claimant {
    ticket: u64,
    user: User,
    writes: bool,
    /// The thread that made the claim.
    thread: usize,
}

/// A description, copied since a forgotten claim outlives what it was made from.
struct Elements {
    address: usize,
    shape: Dims<usize>,
    strides: Dims<isize>,
    size: usize,
}

/// The registry of this module.
pub static REGISTRY: Registry = Registry(Mutex::new(Claims { entries: Vec::new(), last: 0 }));

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
    fn lock(&self) -> MutexGuard<'_, Claims> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims all of the wanted memory, or none, and returns a ticket.
    pub fn claim(&self, wanted: &[Wanted<'_>]) -> Result<NonZeroU64, Conflict> {
        let state = &mut *self.lock();
        state.last += 1;
        let (ticket, before, thread) = (state.last, state.entries.len(), this_thread());
        for (index, wanted) in wanted.iter().enumerate() {
            let by = Claimant { ticket, user: wanted.user, writes: wanted.writes, thread };
            if let Err((place, certain)) = state.add(by, wanted.memory()) {
                let Claimant { user, writes, .. } = state.entries[place].by;
                state.entries.truncate(before);
                return Err(Conflict {
                    wanted: index,
                    user,
                    writes,
                    certain,
                    own: place >= before,
                });
            }
        }
        Ok(NonZeroU64::new(ticket).expect("tickets are counted from 1"))
    }

    /// Claims memory with a ticket of the caller's, which may have several claims. Returns whether it was free.
    pub fn borrow(&self, ticket: u64, memory: Strided<'_>, writes: bool) -> bool {
        let by = Claimant { ticket, user: User::RUST_NUMPY, writes, thread: this_thread() };
        self.lock().add(by, memory).is_ok()
    }

    /// Releases one claim of a ticket that may have several.
    pub fn give_back(&self, ticket: u64) {
        let entries = &mut self.lock().entries;
        if let Some(place) = entries.iter().rposition(|entry| entry.by.ticket == ticket) {
            entries.remove(place);
        }
    }

    /// Releases what functions claimed on other threads. A forked process lacks those threads, so that the functions
    /// never return. All others may belong to any thread, and keep their claims.
    fn forget_other_threads(&self) {
        let here = this_thread();
        self.lock()
            .entries
            .retain(|entry| entry.by.thread == here || !entry.by.user.is_parameter());
    }

    /// Releases the memory of a claim.
    pub fn release(&self, ticket: u64) {
        let entries = &mut self.lock().entries;
        // A claim is mostly released before an older one. The entries of one claim are neighbours.
        if let [.., last] = &entries[..]
            && last.by.ticket == ticket
            && entries.iter().nth_back(1).is_none_or(|entry| entry.by.ticket != ticket)
        {
            entries.pop();
            return;
        }
        match entries.iter().rposition(|entry| entry.by.ticket != ticket) {
            Some(place) if place + 1 == entries.len() => {
                entries.retain(|entry| entry.by.ticket != ticket);
            }
            place => entries.truncate(place.map_or(0, |place| place + 1)),
        }
    }
}

impl Claims {
    /// Adds claimed memory, or returns what [`Claims::conflict`] found.
    #[inline]
    fn add(&mut self, by: Claimant, memory: Strided<'_>) -> Result<(), (usize, bool)> {
        let (range, is_dense) = span(memory);
        if let Some(conflict) = self.conflict(memory, range, by.writes) {
            return Err(conflict);
        }
        let elements = (!is_dense).then(|| Elements::copied(memory));
        self.entries.push(ClaimedMemory { by, range, elements });
        Ok(())
    }

    /// The index of claimed memory that conflicts with a wanted one, and whether that is certain.
    #[inline]
    fn conflict(
        &self,
        memory: Strided<'_>,
        (low, end): (usize, usize),
        writes: bool,
    ) -> Option<(usize, bool)> {
        self.entries.iter().enumerate().find_map(|(place, entry)| {
            let near = entry.range.0 < end && low < entry.range.1;
            if !near || !(writes || entry.by.writes) {
                return None;
            }
            let answer = entry.overlaps(memory);
            (answer != Some(false)).then_some((place, answer.is_some()))
        })
    }
}

impl ClaimedMemory {
    /// Returns whether the memory has a byte in common with this; `None` if that takes too long to
    /// decide.
    #[cold]
    fn overlaps(&self, memory: Strided<'_>) -> Option<bool> {
        let (low, end) = self.range;
        match self.elements.as_deref() {
            Some(Elements { address, shape, strides, size }) => {
                overlap(memory, Strided { address: *address, shape, strides, size: *size })
            }
            None => {
                overlap(memory, Strided { address: low, shape: &[], strides: &[], size: end - low })
            }
        }
    }
}

impl Elements {
    #[cold]
    fn copied(Strided { address, shape, strides, size }: Strided<'_>) -> Box<Elements> {
        let (shape, strides) = (Dims::from_slice(shape), Dims::from_slice(strides));
        Box::new(Elements { address, shape, strides, size })
    }
}

/// The range of the memory, and whether all of it is claimed: whether there are as many bytes as in the range,
/// which nearly always means that the elements fill it. Only elements that share bytes with each other can leave
/// gaps then, and the gaps are claimed too.
#[inline]
fn span(memory: Strided<'_>) -> ((usize, usize), bool) {
    let Strided { address, shape, strides, size } = memory;
    // This is most of what is claimed.
    if let Some(bytes) = layout::contiguous_end(shape, strides, size)
        && let Some(end) = address.checked_add(bytes)
    {
        return ((address, end), true);
    }
    // A range that overflows is compared with everything.
    let (low, end) = memory.range().unwrap_or((0, usize::MAX));
    ((low, end), layout::contiguous_bytes(shape, size) == Some(end - low))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::view::View;
    use arraybridge_host::dtype::DType;

    const USER: User = User::parameter("f", "x");

    fn view(address: usize, shape: &[usize], strides: &[isize]) -> View {
        // SAFETY: the claims compare addresses, and nobody uses the memory.
        unsafe { View::new(address as *mut u8, DType::Float32, shape.into(), strides.into()) }
    }

    fn registry() -> Registry {
        Registry(Mutex::new(Claims { entries: Vec::new(), last: 0 }))
    }

    fn wants(registry: &Registry, view: &View, writes: bool) -> Result<NonZeroU64, Conflict> {
        registry.claim(&[Wanted::of(view, USER, writes)])
    }

    #[test]
    fn readers_share_memory_and_a_writer_does_not() {
        let (all, half) = (view(64, &[8], &[4]), view(64, &[4], &[4]));
        for (one, other) in [(&all, &half), (&half, &all), (&all, &all)] {
            for (writes, too, fits) in [
                (false, false, true),
                (false, true, false),
                (true, false, false),
                (true, true, false),
            ] {
                let registry = registry();
                wants(&registry, one, writes).ok().unwrap();
                assert_eq!(wants(&registry, other, too).is_ok(), fits);
            }
        }
    }

    #[test]
    fn elements_that_are_apart_are_no_conflict() {
        let registry = registry();
        let (even, odd) = (view(64, &[8], &[8]), view(68, &[8], &[8]));
        wants(&registry, &even, true).ok().unwrap();
        wants(&registry, &odd, true).ok().unwrap();
        assert!(wants(&registry, &view(64, &[2], &[4]), false).is_err());
    }

    #[test]
    fn memory_is_free_once_its_claim_is_released() {
        let (registry, memory) = (registry(), view(64, &[8], &[4]));
        let tickets: Vec<_> =
            (0..3).map(|_| wants(&registry, &memory, false).ok().unwrap()).collect();
        for ticket in [tickets[1], tickets[0], tickets[2]] {
            assert!(wants(&registry, &memory, true).is_err());
            registry.release(ticket.get());
        }
        wants(&registry, &memory, true).ok().unwrap();
    }

    #[test]
    fn all_memory_of_a_claim_is_released_with_it() {
        let (registry, views) = (registry(), [64, 256, 512].map(|at| view(at, &[8], &[4])));
        let ticket = registry.claim(&views.each_ref().map(|view| Wanted::of(view, USER, true)));
        registry.release(ticket.ok().unwrap().get());
        assert!(views.iter().all(|view| wants(&registry, view, true).is_ok()));
    }

    #[test]
    fn a_forked_process_keeps_its_own_claims_and_those_of_views() {
        let (registry, views) = (registry(), [64, 256, 512].map(|at| view(at, &[8], &[4])));
        let [own, lost, shown] = &views;
        let lost_ticket = std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                registry.claim(&[Wanted::of(shown, User::TENSOR, false)]).ok().unwrap();
                wants(&registry, lost, true).ok().unwrap()
            });
            other.join().unwrap()
        });
        let ticket = wants(&registry, own, true).ok().unwrap();
        assert!(views.iter().all(|view| wants(&registry, view, true).is_err()));
        registry.forget_other_threads();
        assert!(wants(&registry, lost, true).is_ok());
        assert!([own, shown].iter().all(|view| wants(&registry, view, true).is_err()));
        registry.release(lost_ticket.get());
        assert!(wants(&registry, lost, true).is_err());
        registry.release(ticket.get());
        assert!(wants(&registry, own, true).is_ok());
    }

    #[test]
    fn a_claim_that_fails_claims_nothing() {
        let registry = registry();
        let (free, taken) = (view(64, &[8], &[4]), view(256, &[8], &[4]));
        wants(&registry, &taken, false).ok().unwrap();
        let both = [Wanted::of(&free, USER, true), Wanted::of(&taken, USER, true)];
        let conflict = registry.claim(&both).err().unwrap();
        assert_eq!((conflict.wanted, conflict.own, conflict.writes), (1, false, false));
        wants(&registry, &free, true).ok().unwrap();
    }

    #[test]
    fn one_claim_may_not_want_memory_twice() {
        let memory = view(64, &[8], &[4]);
        let both = [Wanted::of(&memory, USER, false), Wanted::of(&memory, USER, true)];
        let conflict = registry().claim(&both).err().unwrap();
        assert_eq!((conflict.wanted, conflict.own), (1, true));
        assert_eq!(conflict.to_string(), "the memory that f() reads as 'x'");
    }

    /// ThreadSanitizer sees the race if two threads have the memory at the same time.
    #[test]
    fn only_one_thread_writes_to_memory_and_nobody_reads_it_meanwhile() {
        let (registry, mut number) = (registry(), 0_u32);
        let address = (&raw mut number).expose_provenance();
        let count = |writes: bool| {
            let memory = view(address, &[1], &[4]);
            let number = ptr::with_exposed_provenance_mut::<u32>(address);
            let mut written = 0;
            for _ in 0..500 {
                let Ok(ticket) = wants(&registry, &memory, writes) else { continue };
                // SAFETY: the number outlives the threads, and the claim keeps the others away from it.
                unsafe {
                    if writes {
                        *number += 1
                    } else {
                        std::hint::black_box(*number);
                    }
                }
                written += u32::from(writes);
                registry.release(ticket.get());
            }
            written
        };
        let written: u32 = std::thread::scope(|scope| {
            let count = &count;
            let threads =
                [true, false, true, true].map(|writes| scope.spawn(move || count(writes)));
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(number, written);
    }

    #[test]
    fn what_cannot_be_decided_is_a_conflict() {
        let registry = registry();
        wants(&registry, &view(usize::MAX - 8, &[8], &[8]), true).ok().unwrap();
        let conflict = wants(&registry, &view(64, &[8], &[4]), false).err().unwrap();
        assert_eq!(conflict.overlaps(), "may overlap");
    }
}
