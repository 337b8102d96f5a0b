//! Splits work over threads that end before the call returns.

use std::ops::Range;

/// A thread that moves fewer bytes than this costs more than it saves: it takes as long to start as to move
/// a tenth of them.
const MIN_BYTES: usize = 2 << 20;

/// The number of threads for an operation that moves this many bytes, at most `threads`.
pub(super) fn threads_for(bytes: usize, threads: usize) -> usize {
    (bytes / MIN_BYTES).clamp(1, threads.max(1))
}

/// Calls `work` for `parts` ranges that cover `0..len`, each on its own thread, and returns the results in
/// order. The first range, and those for which no thread can be started, run on this thread.
pub(super) fn split<R: Send>(
    len: usize,
    parts: usize,
    work: impl Fn(Range<usize>) -> R + Sync,
) -> Vec<R> {
    let share = len.div_ceil(parts.max(1)).max(1);
    let range = |part: usize| part * share..((part + 1) * share).min(len);
    let count = len.div_ceil(share).max(1);
    if count == 1 {
        return vec![work(0..len)];
    }
    let work = &work;
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..count)
            .map(|part| {
                let thread = std::thread::Builder::new();
                (part, thread.spawn_scoped(scope, move || work(range(part))))
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
                let ranges = split(len, parts, |range| range);
                assert!(ranges.len() <= parts);
                let all: Vec<usize> = ranges.into_iter().flatten().collect();
                assert_eq!(all, (0..len).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn every_thread_has_enough_to_do() {
        assert_eq!(threads_for(MIN_BYTES - 1, 8), 1);
        assert_eq!(threads_for(2 * MIN_BYTES, 8), 2);
        assert_eq!(threads_for(100 * MIN_BYTES, 8), 8);
        assert_eq!(threads_for(100 * MIN_BYTES, 0), 1);
    }
}
