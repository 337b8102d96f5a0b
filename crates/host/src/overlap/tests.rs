use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

fn strided<'a>(
    address: usize,
    shape: &'a [usize],
    strides: &'a [isize],
    size: usize,
) -> Strided<'a> {
    Strided { address, shape, strides, size }
}

/// The addresses of all bytes.
fn bytes(array: Strided<'_>) -> HashSet<usize> {
    let mut found: HashSet<isize> = (0..array.size as isize).collect();
    for (n, stride) in array.shape.iter().zip(array.strides) {
        found = (0..*n as isize)
            .flat_map(|i| found.iter().map(move |byte| byte + i * stride).collect::<Vec<_>>())
            .collect();
    }
    found.into_iter().map(|byte| array.address.wrapping_add_signed(byte)).collect()
}

fn any_array() -> impl Strategy<Value = (usize, Vec<(usize, isize)>, usize)> {
    let axes = prop::collection::vec((0..5_usize, -24..24_isize), 0..4);
    (1000..1080_usize, axes, prop::sample::select(&[1_usize, 2, 4, 8]))
}

proptest! {
    #[test]
    fn two_arrays_overlap_where_they_have_a_byte_in_common(
        (at, axes, size) in any_array(),
        (other_at, other_axes, other_size) in any_array(),
    ) {
        let (shape, strides): (Vec<_>, Vec<_>) = axes.into_iter().unzip();
        let (other_shape, other_strides): (Vec<_>, Vec<_>) = other_axes.into_iter().unzip();
        let one = strided(at, &shape, &strides, size);
        let other = strided(other_at, &other_shape, &other_strides, other_size);
        let common = !bytes(one).is_disjoint(&bytes(other));
        prop_assert_eq!(overlap(one, other), Some(common));
        prop_assert_eq!(overlap(other, one), Some(common));
    }
}

#[test]
fn views_of_a_large_array_are_decided_exactly() {
    let block = |first: usize| strided(4 * first, &[1 << 20, 1 << 11], &[1 << 14, 4], 4);
    assert_eq!(overlap(block(0), block(1 << 11)), Some(false));
    assert_eq!(overlap(block(0), block((1 << 11) - 1)), Some(true));
    let every = |first: usize| strided(4 * first, &[1 << 30], &[8], 4);
    assert_eq!(overlap(every(0), every(1)), Some(false));
    assert_eq!(overlap(every(0), every(4)), Some(true));
}

#[test]
fn a_question_that_takes_too_long_or_overflows_is_left_open() {
    // Strides without a common divisor, and far more elements than steps.
    let shape = [3000, 3000, 3000];
    let one = strided(1 << 40, &shape, &[1_000_003, 1_000_033, 1_000_037], 1);
    let other = strided((1 << 40) + 500_000, &shape, &[1_000_039, 1_000_081, 1_000_099], 1);
    assert_eq!(overlap(one, other), None);
    assert_eq!(overlap(strided(0, &[usize::MAX], &[8], 8), one), None);
}
