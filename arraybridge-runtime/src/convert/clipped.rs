//! The number of values that casts have clipped. Only few callers ask for it.

use std::cell::Cell;

thread_local! {
    static CLIPPED: Cell<u64> = const { Cell::new(0) };
}

/// Counts values that a cast of this thread has clipped.
#[cold]
pub(super) fn count_clipped(values: u64) {
    CLIPPED.set(CLIPPED.get().saturating_add(values));
}

/// Does some work, and returns how many values the casts of conversions have clipped meanwhile. Casts by the operations
/// of a framework are not counted.
pub fn counting_clipped<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = CLIPPED.replace(0);
    let done = work();
    (done, CLIPPED.replace(before))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_within_work_is_counted_by_itself() {
        let (inner, outer) = counting_clipped(|| {
            count_clipped(2);
            let ((), inner) = counting_clipped(|| count_clipped(3));
            count_clipped(4);
            inner
        });
        assert_eq!((inner, outer), (3, 6));
    }
}
