//! Splits work over threads that end before the call returns.
//!
//! Copies and casts are limited by memory bandwidth, which few threads use up. So the number of threads is fixed.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

/// The number of threads that an operation is split over. It does not affect the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// This many, or fewer if each would have little to do.
    AtMost(usize),
    /// The threads of a large operation: up to four, or fewer if each would have little to do.
    Several,
}

impl Threads {
    /// The caller's own.
    pub const ONE: Threads = Threads::AtMost(1);

    /// Several for a large operation, and the caller's own for another.
    pub fn for_large(is_large: bool) -> Threads {
        if is_large { Threads::Several } else { Threads::ONE }
    }

    /// The number of threads for an operation that moves this many bytes.
    pub fn count(self, bytes: usize) -> usize {
        match self {
            Threads::AtMost(most) => (bytes / MIN_BYTES).clamp(1, most.max(1)),
            Threads::Several => (bytes / WORTH_BYTES).clamp(1, cores().min(MOST)),
        }
    }
}

/// No thread moves fewer bytes than this.
const MIN_BYTES: usize = 2 << 20;
/// The bytes that are worth a thread. It takes some 80 us to start, in which a core moves a fifth of them.
const WORTH_BYTES: usize = 4 << 20;
/// The most threads, unless the caller says how many.
const MOST: usize = 4;

/// The cores that this process may use.
///
/// Threads that ask for the first time at once each find out. If one waited for another, a process that is
/// forked meanwhile would wait for a thread that it does not have.
fn cores() -> usize {
    static KNOWN: AtomicUsize = AtomicUsize::new(0);
    match KNOWN.load(Ordering::Relaxed) {
        0 => {
            let cores = available_parallelism().map_or(1, |n| n.get());
            KNOWN.store(cores, Ordering::Relaxed);
            cores
        }
        known => known,
    }
}

/// Calls `work` for ranges that cover `0..len`, on several threads, and returns the results in order. The whole
/// moves this many bytes.
#[inline]
pub fn run<R: Send>(
    threads: Threads,
    len: usize,
    bytes: usize,
    work: impl Fn(Range<usize>) -> R + Sync,
) -> Vec<R> {
    match threads.count(bytes) {
        1 => vec![work(0..len)],
        count => split(len, count, &work),
    }
}

/// Calls `work` for `parts` ranges that cover `0..len`, each on its own thread, and returns the results in order. The
/// first range, and those for which no thread can be started, run on this thread.
#[inline(never)]
fn split<R: Send>(len: usize, parts: usize, work: &(impl Fn(Range<usize>) -> R + Sync)) -> Vec<R> {
    let share = len.div_ceil(parts).max(1);
    let range = |part: usize| part * share..((part + 1) * share).min(len);
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..len.div_ceil(share))
            .map(|part| {
                let begin = move || work(range(part));
                (part, std::thread::Builder::new().spawn_scoped(scope, begin))
            })
            .collect();
        let mut results = vec![work(range(0))];
        for (part, thread) in others {
            results.push(match thread {
                Ok(thread) => {
                    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                }
                Err(_) => work(range(part)),
            });
        }
        results
    })
}

#[cfg(test)]
mod tests;
