use std::cell::Cell;
use std::slice;

use super::*;
use crate::memory::view::View;
use arraybridge_host::dtype::DType;

const USER: User = User::parameter("f", "x");

fn view(address: usize, shape: &[usize], strides: &[isize]) -> View {
    // SAFETY: the claims compare addresses, and nobody uses the memory.
    unsafe { View::new(address as *mut u8, DType::Float32, shape.into(), strides.into()) }
}

fn registry() -> Registry {
    Registry::new()
}

fn wants(registry: &Registry, view: &View, writes: bool) -> Result<NonZeroU64, Conflict> {
    registry.claim(&[Wanted::of(view, USER, writes)])
}

#[test]
fn readers_share_memory_and_a_writer_does_not() {
    let (all, half) = (view(64, &[8], &[4]), view(64, &[4], &[4]));
    for (one, other) in [(&all, &half), (&half, &all), (&all, &all)] {
        for (writes, too, fits) in
            [(false, false, true), (false, true, false), (true, false, false), (true, true, false)]
        {
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
    let tickets: Vec<_> = (0..3).map(|_| wants(&registry, &memory, false).ok().unwrap()).collect();
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
        let threads = [true, false, true, true].map(|writes| scope.spawn(move || count(writes)));
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

/// The conflicts of many claims at random are those of a comparison with each claim, also as claims come and go.
#[test]
fn claims_by_place_find_the_conflicts_of_a_scan() {
    let mut seed = 1_u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) % below
    };
    let (registry, mut claimed) = (registry(), Vec::<(u64, ClaimedMemory)>::new());
    let (mut free, mut taken) = (0, 0);
    for _ in 0..8000 {
        let mut axis =
            |most| (1 + random(most) as usize, ((random(9) as isize - 2) * 4) << random(4));
        let ((m, along), (n, across)) = (axis(5), axis(7));
        let strides = if random(3) == 0 { [n as isize * 4, 4] } else { [along, across] };
        let memory = view(4096 + 4 * random(4096) as usize, &[m, n], &strides);
        let wanted = Wanted::of(&memory, USER, random(2) == 0);
        let (range, is_dense) = span(wanted.memory());
        let conflict =
            |entry: &ClaimedMemory| entry.conflict(wanted.memory(), range, wanted.writes);
        let is_free = claimed.iter().all(|(_, entry)| conflict(entry).is_none());
        *(if is_free { &mut free } else { &mut taken }) += 1;
        let ticket = registry.claim(slice::from_ref(&wanted));
        assert_eq!(ticket.is_ok(), is_free);
        if let Ok(ticket) = ticket {
            let by = Claimant { ticket: 0, user: USER, writes: wanted.writes, thread: 0 };
            let elements = (!is_dense).then(|| Elements::copied(wanted.memory()));
            claimed.push((ticket.get(), ClaimedMemory { by, range, elements }));
        }
        if claimed.len() > 400 {
            registry.release(claimed.swap_remove(random(400) as usize).0);
        }
    }
    assert!(free > 1000 && taken > 1000, "{free} {taken}");
}

/// The number of claims that are compared does not grow with the number of claims.
#[test]
fn memory_is_compared_with_its_neighbours_alone() {
    const N: usize = 500;
    let rows = |i| view(4096 + 4 * N * i, &[N], &[4]);
    let columns = |i| view(4096 + 4 * i, &[N], &[4 * N as isize]);
    let back = |i| view(4096 + 4 * (N * N - 1 - i), &[N], &[-4 * N as isize]);
    let tiles =
        |i| view(4096 + 4 * (N * 20 * (i / 25) + 20 * (i % 25)), &[20, 20], &[4 * N as isize, 4]);
    let ways: [&dyn Fn(usize) -> View; 4] = [&rows, &columns, &back, &tiles];
    for way in ways {
        let (mut places, compared) = (Places::new(), Cell::new(0));
        for i in 0..N {
            let view = way(i);
            let memory = Wanted::of(&view, USER, true).memory();
            let (range, is_dense) = span(memory);
            let conflict = |entry: &ClaimedMemory| {
                compared.set(compared.get() + 1);
                entry.conflict(memory, range, true)
            };
            assert!(places.find((memory, range), true, &conflict).is_none());
            let by = Claimant { ticket: 1, user: USER, writes: true, thread: 0 };
            let elements = (!is_dense).then(|| Elements::copied(memory));
            places.add(i as u64, ClaimedMemory { by, range, elements });
        }
        assert!(compared.get() <= 8 * N, "{}", compared.get());
    }
}
