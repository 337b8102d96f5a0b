//! Splits work over threads that end with the call.

use std::ops::Range;

/// Below this many bytes of traffic a thread costs more than it saves.
const MIN_BYTES: usize = 4 << 20;

/// The number of threads that is worth while: `threads` at most, one for a small array.
pub(super) fn worth(threads: usize, bytes: usize) -> usize {
    if bytes < MIN_BYTES { 1 } else { threads.max(1) }
}

/// Calls `work` for `parts` ranges that cover `0..len`, one per thread, and gives the results in
/// order. Each boundary is a multiple of `step`. What no thread can be had for runs here.
pub(super) fn split<R: Send>(
    len: usize,
    parts: usize,
    step: usize,
    work: impl Fn(Range<usize>) -> R + Sync,
) -> Vec<R> {
    let share = len.div_ceil(parts.max(1)).next_multiple_of(step).max(1);
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
                for step in [1, 16] {
                    let ranges = split(len, parts, step, |range| range);
                    assert!(ranges.len() <= parts);
                    assert!(ranges.iter().skip(1).all(|range| range.start % step == 0));
                    let all: Vec<usize> = ranges.into_iter().flatten().collect();
                    assert_eq!(all, (0..len).collect::<Vec<_>>());
                }
            }
        }
    }
}
