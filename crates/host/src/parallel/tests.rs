use super::*;

#[test]
fn the_ranges_cover_everything_once_and_in_order() {
    for len in [0, 1, 5, 64, 65, 1000] {
        for parts in [1, 2, 3, 7] {
            let ranges = run(Threads::AtMost(parts), len, parts * MIN_BYTES, |range| range);
            assert!(ranges.len() <= parts);
            let all: Vec<usize> = ranges.into_iter().flatten().collect();
            assert_eq!(all, (0..len).collect::<Vec<_>>());
        }
    }
}

#[test]
fn every_thread_has_enough_to_do() {
    assert_eq!(Threads::AtMost(8).count(MIN_BYTES - 1), 1);
    assert_eq!(Threads::AtMost(8).count(2 * MIN_BYTES), 2);
    assert_eq!(Threads::AtMost(8).count(100 * MIN_BYTES), 8);
    assert_eq!(Threads::AtMost(0).count(100 * MIN_BYTES), 1);
    assert_eq!(Threads::Several.count(2 * WORTH_BYTES - 1), 1);
    assert_eq!(Threads::Several.count(2 * WORTH_BYTES), cores().min(2));
    assert_eq!(Threads::Several.count(100 * WORTH_BYTES), cores().min(MOST));
}

#[test]
fn a_panic_of_a_thread_is_that_of_the_call() {
    let panics = |range: Range<usize>| assert_eq!(range.start, 0, "a later part");
    let caught = std::panic::catch_unwind(|| run(Threads::AtMost(2), 4, 2 * MIN_BYTES, panics));
    assert!(caught.unwrap_err().downcast_ref::<String>().unwrap().contains("a later part"));
}
