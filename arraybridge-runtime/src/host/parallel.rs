//! Splits work over threads that end before the call returns.
//!
//! Copies and casts are limited by memory bandwidth, which a few cores use up on one machine and many on another.
//! So the number of threads is measured: now and then a large operation does its first parts with different
//! numbers, and those that follow use the one that was fast. How little is worth a thread is measured too: by how
//! late threads begin, and how much is moved meanwhile.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;
use std::time::Instant;

/// How many threads an operation is split over. It does not affect the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// This many, or fewer if each would have little to do.
    AtMost(usize),
    /// As many as made earlier operations of its kind fast.
    Measured,
}

impl Threads {
    /// The caller's own.
    pub const ONE: Threads = Threads::AtMost(1);

    /// As many as are fast for a large operation, and the caller's own for another.
    pub fn for_large(is_large: bool) -> Threads {
        if is_large { Threads::Measured } else { Threads::ONE }
    }
}

/// No thread moves fewer bytes than this. Operations on less are not measured.
const MIN_BYTES: usize = 2 << 20;
/// The bytes for a thread before anything was measured.
const FIRST_BYTES: usize = 8 << 20;
/// A thread is worth it if it has to do for so many times as long as it takes to start. With two threads, one
/// such time is lost at the start and one at the end, and a sixth of the whole is gained.
const STARTS: u64 = 3;
/// A thread that began later than this, in nanoseconds, was held up by something else.
const LATEST_START: usize = 500_000;
/// The number of threads before anything was measured, on a machine with as many cores.
const FIRST: usize = 4;
/// An operation that moves fewer bytes is not measured: its parts would take less time than threads vary by.
const TRIAL_BYTES: usize = 64 << 20;
/// The bytes of a part that is measured, at least.
const PART_BYTES: usize = 16 << 20;
/// Of the large operations of a kind, the first two and one in this many are measured.
const TRIAL_EVERY: usize = 16;
/// Twice the threads are worth it if they need less than this share of the time. Others may use those cores.
const WORTH: f64 = 0.85;

/// What was measured for one kind of operation.
pub struct Pace {
    /// The number of threads to use; 0 if nothing was measured.
    best: AtomicUsize,
    /// What the last trial found; 0 before the first.
    found: AtomicUsize,
    large: AtomicUsize,
    /// The bytes that a thread moves in a microsecond; 0 if nothing was measured.
    rate: AtomicUsize,
}

/// How long a thread takes to begin, in nanoseconds; 0 if none was started.
static START: AtomicUsize = AtomicUsize::new(0);

/// Brings a measured value up to date. One measurement may be disturbed.
fn learn(known: &AtomicUsize, measured: usize) {
    let before = known.load(Ordering::Relaxed);
    let now = if before == 0 { measured } else { (3 * before + measured) / 4 };
    known.store(now.max(1), Ordering::Relaxed);
}

/// The bytes that are worth a thread, if it takes so many nanoseconds to begin and moves so many bytes in a
/// microsecond.
fn worthwhile(start: usize, rate: usize) -> usize {
    match (start, rate) {
        (0, _) | (_, 0) => FIRST_BYTES,
        // The product does not fit 32 bits.
        _ => ((STARTS * start as u64 * rate as u64 / 1000) as usize).max(MIN_BYTES),
    }
}

impl Pace {
    pub const fn new() -> Pace {
        let [best, found, large, rate] = [const { AtomicUsize::new(0) }; 4];
        Pace { best, found, large, rate }
    }

    fn best(&self) -> usize {
        match self.best.load(Ordering::Relaxed) {
            0 => FIRST.min(cores()),
            best => best,
        }
    }

    /// The number of threads for an operation that moves this many bytes, unless it is measured.
    pub fn expected(&self, threads: Threads, bytes: usize) -> usize {
        match threads {
            Threads::AtMost(most) => threads_for(bytes, MIN_BYTES, most),
            Threads::Measured => self.threads_for(bytes, self.best()),
        }
    }

    fn threads_for(&self, bytes: usize, most: usize) -> usize {
        let rate = self.rate.load(Ordering::Relaxed);
        threads_for(bytes, worthwhile(START.load(Ordering::Relaxed), rate), most)
    }

    fn is_trial(&self, bytes: usize) -> bool {
        if bytes < TRIAL_BYTES {
            return false;
        }
        let before = self.large.fetch_add(1, Ordering::Relaxed);
        before == 1 || before.is_multiple_of(TRIAL_EVERY)
    }

    /// Keeps what a trial found. Two in a row have to find more threads better, or fewer, since what else runs on
    /// the machine disturbs one.
    fn keep(&self, best: usize, found: usize) {
        let before = self.found.swap(found, Ordering::Relaxed);
        let agreed = match before {
            0 => best,
            _ if found > best && before > best => found.min(before),
            _ if found < best && before < best => found.max(before),
            _ => best,
        };
        self.best.store(agreed, Ordering::Relaxed);
    }
}

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

fn threads_for(bytes: usize, each: usize, most: usize) -> usize {
    (bytes / each).clamp(1, most.max(1))
}

/// Calls `work` for ranges that cover `0..len`, on several threads, and returns the results in order. The whole
/// moves this many bytes.
#[inline]
pub fn run<R: Send>(
    threads: Threads,
    pace: &Pace,
    len: usize,
    bytes: usize,
    work: impl Fn(Range<usize>) -> R + Sync,
) -> Vec<R> {
    let expected = pace.expected(threads, bytes);
    if threads == Threads::Measured && cores() > 1 && bytes >= MIN_BYTES {
        return observed(pace, len, bytes, expected, &work);
    }
    if expected == 1 { vec![work(0..len)] } else { split(0..len, expected, &work) }
}

/// As [`run`], for an operation from which something is to be learnt. The work of small ones is inlined where they
/// are run.
#[inline(never)]
fn observed<R: Send>(
    pace: &Pace,
    len: usize,
    bytes: usize,
    expected: usize,
    work: &(impl Fn(Range<usize>) -> R + Sync),
) -> Vec<R> {
    if pace.is_trial(bytes) {
        return measure(pace, len, bytes, work);
    }
    // How fast its kind is does not matter for a larger one.
    if bytes >= TRIAL_BYTES {
        return split(0..len, expected, work);
    }
    let learning = |range: Range<usize>| {
        let (is_first, share) = (range.start == 0, range.len());
        let start = Instant::now();
        let result = work(range);
        // Those of other threads have a core to themselves or not, which is not known.
        if is_first {
            let moved = (bytes as f64 * share as f64 / len.max(1) as f64) as usize;
            learn(&pace.rate, moved / (start.elapsed().as_micros() as usize).max(1));
        }
        result
    };
    split(0..len, expected, &learning)
}

/// As [`run`], and finds out which number of threads is fast.
#[cold]
fn measure<R: Send>(
    pace: &Pace,
    len: usize,
    bytes: usize,
    work: &(impl Fn(Range<usize>) -> R + Sync),
) -> Vec<R> {
    let best = pace.best();
    let (mut results, mut done) = (Vec::new(), 0);
    let found = climb(best, cores(), |threads| {
        let parts = bytes.div_ceil(PART_BYTES.max(2 * MIN_BYTES * threads));
        let end = done + len / parts;
        if end == done || end > len {
            return None;
        }
        // Without the start of the threads, which a part pays for as much as a whole operation.
        let timed = |range| {
            let start = Instant::now();
            (work(range), start.elapsed())
        };
        let (found, times): (Vec<R>, Vec<_>) =
            split(done..end, threads, &timed).into_iter().unzip();
        results.extend(found);
        let cost = times.into_iter().max()?.as_secs_f64() / (end - done) as f64;
        done = end;
        Some(cost)
    });
    pace.keep(best, found);
    if done < len {
        results.extend(split(done..len, pace.threads_for(bytes, best), work));
    }
    results
}

/// The number of threads, of at most `most`, from which neither twice nor half as many are better. `cost` is the
/// time for the same work with a number of threads; `None` if there is no work left to measure.
fn climb(first: usize, most: usize, mut cost: impl FnMut(usize) -> Option<f64>) -> usize {
    // The first part also pays for what is done for the first time. The least of two counts.
    let Some(mut lowest) = cost(first).and_then(|_| cost(first)) else { return first };
    let mut compare = |threads, best, lowest: f64| {
        let once = cost(threads)?;
        let lowest = lowest.min(cost(best)?);
        Some((once.min(cost(threads)?), lowest))
    };
    let mut best = first;
    while best < most
        && let more = (2 * best).min(most)
        && let Some((cost, before)) = compare(more, best, lowest)
        && cost < WORTH * before
    {
        (best, lowest) = (more, cost);
    }
    if best > first {
        return best;
    }
    while best > 1
        && let fewer = best.div_ceil(2)
        && let Some((cost, before)) = compare(fewer, best, lowest)
        && WORTH * cost <= before
    {
        (best, lowest) = (fewer, cost);
    }
    best
}

/// Calls `work` for `parts` ranges that cover another one, each on its own thread, and returns the results in
/// order. The first range, and those for which no thread can be started, run on this thread.
fn split<R: Send>(
    all: Range<usize>,
    parts: usize,
    work: &(impl Fn(Range<usize>) -> R + Sync),
) -> Vec<R> {
    let len = all.len();
    let share = len.div_ceil(parts.max(1)).max(1);
    let range = |part: usize| {
        let end = (all.start + (part + 1) * share).min(all.end);
        all.start + part * share..end
    };
    let count = len.div_ceil(share).max(1);
    if count == 1 {
        return vec![work(all)];
    }
    let start = Instant::now();
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..count)
            .map(|part| {
                let (thread, range) = (std::thread::Builder::new(), range(part));
                let begin = move || {
                    if part == 1 {
                        learn(&START, (start.elapsed().as_nanos() as usize).min(LATEST_START));
                    }
                    work(range)
                };
                (part, thread.spawn_scoped(scope, begin))
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
mod tests {
    use super::*;

    #[test]
    fn the_ranges_cover_everything_once_and_in_order() {
        for len in [0, 1, 5, 64, 65, 1000] {
            for parts in [1, 2, 3, 7] {
                let ranges = split(10..10 + len, parts, &|range| range);
                assert!(ranges.len() <= parts);
                let all: Vec<usize> = ranges.into_iter().flatten().collect();
                assert_eq!(all, (10..10 + len).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn an_operation_that_is_measured_covers_everything_once_and_in_order() {
        for len in [1, 2, 7, 64, 1000] {
            for bytes in [1, TRIAL_BYTES - 1, TRIAL_BYTES, 3 * TRIAL_BYTES + 1, 100 * TRIAL_BYTES] {
                let pace = Pace::new();
                for _ in 0..3 {
                    let ranges = run(Threads::Measured, &pace, len, bytes, |range| range);
                    let all: Vec<usize> = ranges.into_iter().flatten().collect();
                    assert_eq!(all, (0..len).collect::<Vec<_>>(), "{bytes} bytes");
                }
            }
        }
    }

    #[test]
    fn every_thread_has_enough_to_do() {
        let pace = Pace::new();
        assert_eq!(pace.expected(Threads::AtMost(8), MIN_BYTES - 1), 1);
        assert_eq!(pace.expected(Threads::AtMost(8), 2 * MIN_BYTES), 2);
        assert_eq!(pace.expected(Threads::AtMost(8), 100 * MIN_BYTES), 8);
        assert_eq!(pace.expected(Threads::AtMost(0), 100 * MIN_BYTES), 1);
        assert_eq!(pace.expected(Threads::Measured, 100 * FIRST_BYTES), FIRST.min(cores()));
        pace.keep(4, 32);
        pace.keep(4, 32);
        assert_eq!(pace.expected(Threads::Measured, 100 * FIRST_BYTES), 32);
        assert_eq!(pace.expected(Threads::Measured, 8 * FIRST_BYTES), 8);
        assert_eq!(pace.expected(Threads::Measured, 2 * FIRST_BYTES - 1), 1);
    }

    #[test]
    fn threads_that_begin_late_and_operations_that_are_fast_need_more_to_do() {
        assert_eq!(worthwhile(0, 30_000), FIRST_BYTES);
        assert_eq!(worthwhile(80_000, 0), FIRST_BYTES);
        // 10 GB/s for 240 us.
        assert_eq!(worthwhile(80_000, 10_000), 2_400_000);
        assert_eq!(worthwhile(80_000, 30_000), 7_200_000);
        assert_eq!(worthwhile(160_000, 30_000), 14_400_000);
        assert_eq!(worthwhile(1_000, 1_000), MIN_BYTES);
    }

    #[test]
    fn a_disturbed_measurement_moves_what_is_known_by_a_quarter() {
        let known = AtomicUsize::new(0);
        let after = |measured| {
            learn(&known, measured);
            known.load(Ordering::Relaxed)
        };
        assert_eq!([80, 80, 400, 80, 80].map(after), [80, 80, 160, 140, 125]);
        assert_eq!(after(0), 93);
        assert_eq!([0; 40].map(after)[39], 1, "0 would be nothing measured");
    }

    #[test]
    fn operations_of_middling_size_teach_how_fast_their_kind_is() {
        let rate = |bytes| {
            let pace = Pace::new();
            run(Threads::Measured, &pace, 8, bytes, |range| range);
            pace.rate.load(Ordering::Relaxed)
        };
        assert_eq!(rate(MIN_BYTES - 1), 0);
        assert_eq!(rate(MIN_BYTES) > 0, cores() > 1);
    }

    #[test]
    fn one_large_operation_in_many_is_measured() {
        let pace = Pace::new();
        let trials = (0..10 * TRIAL_EVERY).filter(|_| pace.is_trial(TRIAL_BYTES)).count();
        assert_eq!(trials, 11);
        assert!(!(0..10 * TRIAL_EVERY).any(|_| pace.is_trial(TRIAL_BYTES - 1)));
    }

    #[test]
    fn two_trials_in_a_row_have_to_agree() {
        let pace = Pace::new();
        let after = |found| {
            pace.keep(pace.best(), found);
            pace.best()
        };
        pace.best.store(4, Ordering::Relaxed);
        assert_eq!([1, 4, 1, 8, 2].map(after), [4; 5], "one trial, or none, found so");
        assert_eq!([1, 1, 1].map(after), [2, 1, 1]);
        assert_eq!([16, 8, 32].map(after), [1, 8, 8]);
        assert_eq!(after(16), 16);
    }

    #[test]
    fn one_measurement_that_is_disturbed_changes_nothing() {
        for (memory, disturbed) in [2, 4, 8].into_iter().flat_map(|m| (1..12).map(move |d| (m, d)))
        {
            let mut count = 0;
            let found = climb(4, 8, |threads| {
                count += 1;
                Some(machine(memory)(threads) * if count == disturbed { 10.0 } else { 1.0 })
            });
            assert_eq!(found, memory, "measurement {disturbed}");
        }
    }

    /// The time that a machine needs: each thread moves as much as one core can, up to what the memory gives.
    fn machine(memory: usize) -> impl Fn(usize) -> f64 {
        move |threads| 1.0 / threads.min(memory) as f64
    }

    #[test]
    fn threads_are_added_while_the_memory_gives_more() {
        for (cores, memory, best) in [
            (1, 1, 1),
            (2, 1, 1),
            (2, 2, 2),
            (8, 2, 2),
            (8, 8, 8),
            (64, 6, 8),
            (64, 32, 32),
            (6, 6, 6),
        ] {
            let cost = machine(memory);
            let found = climb(FIRST.min(cores), cores, |threads| Some(cost(threads)));
            assert_eq!(found, best, "{cores} cores, memory for {memory}");
            // From there, it stays.
            assert_eq!(climb(found, cores, |threads| Some(cost(threads))), best);
        }
    }

    #[test]
    fn it_finds_the_way_from_any_number() {
        for first in 1..=64 {
            let found = climb(first, 64, |threads| Some(machine(16)(threads)));
            let is_fast = WORTH * machine(16)(found) <= machine(16)(64);
            assert!(is_fast && found <= 32, "{found} from {first}");
        }
    }

    #[test]
    fn it_stays_where_nothing_can_be_measured() {
        assert_eq!(climb(4, 64, |_| None), 4);
        let mut left = 2;
        let one_number = |threads| {
            left -= 1;
            (left >= 0).then(|| machine(64)(threads))
        };
        assert_eq!(climb(4, 64, one_number), 4);
    }
}
