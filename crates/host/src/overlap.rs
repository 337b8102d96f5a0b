//! The exact overlap of two strided arrays in memory, not only that of the ranges that they span.

use smallvec::SmallVec;

use super::layout;

/// A strided array in memory.
#[derive(Clone, Copy, Debug)]
pub struct Strided<'a> {
    /// The address of its first element.
    pub address: usize,
    /// The length of each axis.
    pub shape: &'a [usize],
    /// The bytes from one element to the next along each axis.
    pub strides: &'a [isize],
    /// The size of an element in bytes.
    pub size: usize,
}

impl Strided<'_> {
    /// The lowest address, and the address past the last byte.
    pub fn range(&self) -> Option<(usize, usize)> {
        let (low, end) = layout::extent(self.shape, self.strides, self.size)?;
        Some((self.address.checked_add_signed(low)?, self.address.checked_add_signed(end)?))
    }
}

/// The steps after which the search stops, which take a tenth of a millisecond. Slices of an array whose own
/// elements do not overlap take a few steps.
const MAX_STEPS: usize = 10_000;

/// Returns whether two arrays have a byte in common; `None` if that takes too long to decide.
///
/// The address of a byte is the lowest address of its array plus a sum of strides times indices. With the
/// indices of the second array counted from its end, both sums can be brought to one side. Then the
/// question is whether a sum of positive strides times bounded indices equals a given distance.
pub fn overlap(one: Strided<'_>, other: Strided<'_>) -> Option<bool> {
    if one.shape.contains(&0) || other.shape.contains(&0) {
        return Some(false);
    }
    let ((low, end), (other_low, other_end)) = (one.range()?, other.range()?);
    if end <= other_low || other_end <= low {
        return Some(false);
    }
    let mut steps = MAX_STEPS;
    adds_up(&terms(one, other)?, other_end - 1 - low, &mut steps)
}

/// The strides of both arrays, from the smallest to the largest, with the bytes of an element as an axis of
/// stride one; `None` if their sum overflows.
fn terms(one: Strided<'_>, other: Strided<'_>) -> Option<SmallVec<[Term; 16]>> {
    let axes = [one, other].into_iter().flat_map(|array| {
        let axes = array.strides.iter().zip(array.shape);
        axes.map(|(stride, n)| (stride.unsigned_abs(), n - 1)).chain([(1, array.size - 1)])
    });
    let mut axes: SmallVec<[(usize, usize); 16]> =
        axes.filter(|(stride, max_index)| *stride > 0 && *max_index > 0).collect();
    axes.sort_unstable_by_key(|axis| axis.0);
    axes.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        kept.1 += if same { next.1 } else { 0 };
        same
    });
    let (mut divisor, mut reach) = (0, 0_usize);
    let mut terms = SmallVec::new();
    for (stride, max_index) in axes {
        terms.push(Term { stride, max_index, divisor, reach });
        divisor = gcd(stride, divisor);
        reach = reach.checked_add(stride.checked_mul(max_index)?)?;
    }
    Some(terms)
}

/// A stride with its largest index.
struct Term {
    stride: usize,
    max_index: usize,
    /// The greatest common divisor of the smaller strides.
    divisor: usize,
    /// The largest sum of the smaller strides.
    reach: usize,
}

/// Returns whether strides times indices can add up to a distance, trying the last term's indices
/// first.
fn adds_up(terms: &[Term], distance: usize, steps: &mut usize) -> Option<bool> {
    let Some((term, rest)) = terms.split_last() else { return Some(distance == 0) };
    let first = distance.saturating_sub(term.reach).div_ceil(term.stride);
    for index in first..=term.max_index.min(distance / term.stride) {
        *steps = steps.checked_sub(1)?;
        let left = distance - index * term.stride;
        if left.is_multiple_of(term.divisor) && adds_up(rest, left, steps)? {
            return Some(true);
        }
    }
    Some(false)
}

fn gcd(mut a: usize, mut b: usize) -> usize {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
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
}
