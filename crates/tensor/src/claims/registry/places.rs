//! Claimed memory by its place, so that a conflict is found without a look at each claim.
//!
//! Memory is found by its range of addresses. The ranges of the columns of a matrix overlap, so these are found by their
//! place within a row: such memory consists of *blocks*, whose starts differ by multiples of a *period*.

use std::collections::BTreeMap;

use super::claimed::{ClaimedMemory, Found};
use arraybridge_host::layout::Dims;
use arraybridge_host::overlap::{Strided, gcd};

/// Claimed memory, by its place and by its ticket.
pub(super) struct Places {
    entries: BTreeMap<Place, ClaimedMemory>,
    tickets: BTreeMap<(u64, u64), Place>,
}

/// A place in the order of all. Those that differ in `start` and `number` alone are a *family*.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// Readers look for no other readers.
    writes: bool,
    /// The exponent of the least power of two that the range of addresses is not longer than.
    length: u32,
    /// The lowest address in units of that power, if there is a period. The range ends in the next unit at the latest.
    unit: usize,
    /// The period of the blocks; 0 for a single one.
    period: usize,
    /// The exponent of the least power of two that a block is not longer than.
    width: u32,
    /// The first byte of a block: its address, or the rest of that by the period.
    start: usize,
    /// What tells equal places apart.
    number: u64,
}

impl Places {
    pub const fn new() -> Places {
        Places { entries: BTreeMap::new(), tickets: BTreeMap::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds claimed memory, with a number that no other has.
    #[cold]
    pub fn add(&mut self, number: u64, entry: ClaimedMemory) {
        let (low, end) = entry.range;
        let whole = (0, end - low);
        let (period, width) =
            entry.elements.as_deref().map_or(whole, |memory| blocks(memory.strided(), entry.range));
        let length = exponent(end - low);
        let unit = if period == 0 { 0 } else { unit(low, length) };
        let start = low.checked_rem(period).unwrap_or(low);
        let (writes, width) = (entry.by.writes, exponent(width));
        let place = Place { writes, length, unit, period, width, start, number };
        self.tickets.insert((entry.by.ticket, number), place);
        self.entries.insert(place, entry);
    }

    /// The number of the last claim of a ticket.
    pub fn last_of(&self, ticket: u64) -> Option<u64> {
        let found = self.tickets.range((ticket, 0)..=(ticket, u64::MAX)).next_back();
        found.map(|((_, number), _)| *number)
    }

    /// Removes the claim of a ticket with a number.
    pub fn remove(&mut self, ticket: u64, number: u64) {
        if let Some(place) = self.tickets.remove(&(ticket, number)) {
            self.entries.remove(&place);
        }
    }

    /// Keeps the claims that are chosen.
    pub fn retain(&mut self, stays: impl Fn(&ClaimedMemory) -> bool) {
        self.entries.retain(|_, entry| stays(entry));
        self.tickets.retain(|_, place| self.entries.contains_key(place));
    }

    /// The first conflict that is found among the claims that may share a byte with wanted memory.
    #[cold]
    pub fn find(
        &self,
        (memory, range): (Strided<'_>, (usize, usize)),
        writes: bool,
        conflict: &dyn Fn(&ClaimedMemory) -> Option<Found>,
    ) -> Option<Found> {
        let wanted = blocks(memory, range);
        let mut from = Place::first(!writes, 0, 0);
        // One family after the other, without those that are elsewhere.
        while let Some((&family, _)) = self.entries.range(from..).next() {
            let Place { writes, length, unit: at, period, .. } = family;
            let first = unit(range.0, length).saturating_sub(1);
            if period != 0 && at < first {
                from = Place::first(writes, length, first);
                continue;
            }
            if period != 0 && at > unit(range.1.saturating_sub(1), length) {
                from = Place::first(writes, length + 1, 0);
                continue;
            }
            for (start, end) in family.near(wanted, range) {
                let place = |start| Place { start, number: 0, ..family };
                let mut near = self.entries.range(place(start)..place(end));
                if let Some(found) = near.find_map(|(_, entry)| conflict(entry)) {
                    return Some(found);
                }
            }
            from = Place { start: usize::MAX, number: u64::MAX, ..family };
        }
        None
    }
}

impl Place {
    fn first(writes: bool, length: u32, unit: usize) -> Place {
        Place { writes, length, unit, period: 0, width: 0, start: 0, number: 0 }
    }

    /// The starts in a family of all blocks that may share a byte with wanted ones of a period and a width.
    fn near(
        &self,
        (period, width): (usize, usize),
        (low, end): (usize, usize),
    ) -> Dims<(usize, usize)> {
        let reach = 1_usize.checked_shl(self.width).unwrap_or(0).wrapping_sub(1);
        if self.period == 0 {
            return Dims::from_slice(&[(low.saturating_sub(reach), end)]);
        }
        let is_apart = period % self.period == 0 && reach.saturating_add(width) < self.period;
        if !is_apart {
            return Dims::from_slice(&[(0, self.period)]);
        }
        let first = low % self.period;
        let last = first + width;
        let mut found = Dims::from_slice(&[(first.saturating_sub(reach), last.min(self.period))]);
        // A row ends, and the next begins.
        if last > self.period {
            found.push((0, last - self.period));
        } else if first < reach {
            found.push((self.period - (reach - first), self.period));
        }
        found
    }
}

/// The period of blocks that memory consists of, which is 0 for a single one, and the width of a block. A block may have
/// bytes that are no element's.
fn blocks(memory: Strided<'_>, (low, end): (usize, usize)) -> (usize, usize) {
    let Strided { shape, strides, size, .. } = memory;
    // The range of what overflows says nothing about the places in it.
    if (low, end) == (0, usize::MAX) {
        return (0, end);
    }
    let axes = shape.iter().zip(strides).filter(|(n, stride)| **n > 1 && **stride != 0);
    let mut axes: Dims<_> = axes.map(|(n, stride)| (stride.unsigned_abs(), n - 1)).collect();
    axes.sort_unstable();
    axes.iter().fold((0, size), |(period, width), (stride, steps)| match period {
        0 if *stride <= width => (0, width + stride * steps),
        _ => (gcd(*stride, period), width),
    })
}

/// The exponent of the least power of two that is not smaller than a length.
fn exponent(length: usize) -> u32 {
    usize::BITS - length.saturating_sub(1).leading_zeros()
}

/// An address in units of a power of two.
fn unit(address: usize, exponent: u32) -> usize {
    address.checked_shr(exponent).unwrap_or(0)
}
