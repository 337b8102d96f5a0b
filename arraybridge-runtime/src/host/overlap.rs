//! Whether two strided arrays share memory, by elements and not only by the range that they span.

use smallvec::SmallVec;

use super::layout;

/// A strided array in memory.
#[derive(Clone, Copy, Debug)]
pub struct Strided<'a> {
    /// The address of its first element.
    pub address: usize,
    /// Elements along each axis.
    pub shape: &'a [usize],
    /// Bytes from one element to the next along each axis.
    pub strides: &'a [isize],
    /// Bytes of an element.
    pub size: usize,
}

impl Strided<'_> {
    /// The addresses of its first byte and past its last one.
    pub fn range(&self) -> Option<(usize, usize)> {
        let (low, end) = layout::extent(self.shape, self.strides, self.size)?;
        Some((self.address.checked_add_signed(low)?, self.address.checked_add_signed(end)?))
    }
}

/// Steps of a search before it is given up: a tenth of a millisecond. Slices of one array that is
/// not made of overlapping elements itself take a few.
const MOST_STEPS: usize = 10_000;

/// Whether two arrays have a byte in common; `None` where it takes too long to find out.
///
/// A byte of an array is at its lowest address plus a sum of strides times indices. Both sums are
/// brought to one side: with the indices of the second array counted from its end, the question is
/// whether strides times indices, all of them positive and bounded, make a given distance.
pub fn overlap(one: Strided<'_>, other: Strided<'_>) -> Option<bool> {
    if one.shape.contains(&0) || other.shape.contains(&0) {
        return Some(false);
    }
    let ((low, end), (other_low, other_end)) = (one.range()?, other.range()?);
    if end <= other_low || other_end <= low {
        return Some(false);
    }
    let distance = other_end - 1 - low;
    let axes = [one, other].into_iter().flat_map(|array| {
        let axes = array.strides.iter().zip(array.shape);
        axes.map(|(stride, n)| (stride.unsigned_abs(), n - 1)).chain([(1, array.size - 1)])
    });
    let mut axes: SmallVec<[(usize, usize); 16]> =
        axes.filter(|(step, most)| *step > 0 && *most > 0).collect();
    axes.sort_unstable_by_key(|axis| std::cmp::Reverse(axis.0));
    axes.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        kept.1 += if same { next.1 } else { 0 };
        same
    });
    let mut rest = (0_usize, 0_usize);
    let mut terms: SmallVec<[Term; 16]> = SmallVec::new();
    for (step, most) in axes.into_iter().rev() {
        terms.push(Term { step, most, divisor: rest.0, reach: rest.1 });
        rest = (gcd(step, rest.0), rest.1.checked_add(step.checked_mul(most)?)?);
    }
    makes(&terms, distance, &mut MOST_STEPS.clone())
}

/// A stride and the largest index; what the smaller strides can make, and what divides it.
struct Term {
    step: usize,
    most: usize,
    divisor: usize,
    reach: usize,
}

/// Whether indices, the last term's first, make a distance.
fn makes(terms: &[Term], distance: usize, steps: &mut usize) -> Option<bool> {
    let Some((term, rest)) = terms.split_last() else { return Some(distance == 0) };
    let least = distance.saturating_sub(term.reach).div_ceil(term.step);
    for index in least..=term.most.min(distance / term.step) {
        *steps = steps.checked_sub(1)?;
        let left = distance - index * term.step;
        if left.is_multiple_of(term.divisor) && makes(rest, left, steps)? {
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

    /// All addresses, one by one.
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
    fn views_of_a_large_array_are_decided() {
        let block = |first: usize| strided(4 * first, &[1 << 20, 1 << 11], &[1 << 14, 4], 4);
        assert_eq!(overlap(block(0), block(1 << 11)), Some(false));
        assert_eq!(overlap(block(0), block((1 << 11) - 1)), Some(true));
        let every = |first: usize| strided(4 * first, &[1 << 30], &[8], 4);
        assert_eq!(overlap(every(0), every(1)), Some(false));
        assert_eq!(overlap(every(0), every(4)), Some(true));
    }

    #[test]
    fn what_takes_too_long_or_does_not_fit_is_left_open() {
        // Strides without a common measure and far more elements than steps.
        let shape = [3000, 3000, 3000];
        let one = strided(1 << 40, &shape, &[1_000_003, 1_000_033, 1_000_037], 1);
        let other = strided((1 << 40) + 500_000, &shape, &[1_000_039, 1_000_081, 1_000_099], 1);
        assert_eq!(overlap(one, other), None);
        assert_eq!(overlap(strided(0, &[usize::MAX], &[8], 8), one), None);
    }
}
