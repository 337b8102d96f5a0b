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

/// The greatest common divisor; that of a number and 0 is the number.
pub fn gcd(mut a: usize, mut b: usize) -> usize {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests;
