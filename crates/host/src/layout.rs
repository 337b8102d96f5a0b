//! Layouts of strided arrays, by NumPy's rules: the stride of an axis of length one does not matter, and an
//! array without elements has every layout. Strides are in bytes.

use smallvec::SmallVec;

/// Extents or strides. Up to six axes need no allocation.
pub type Dims<T> = SmallVec<[T; 6]>;

/// The strides of a row-major array.
pub fn contiguous_strides(shape: &[usize], size: usize) -> Dims<isize> {
    let mut strides: Dims<isize> = Dims::from_elem(0, shape.len());
    set_contiguous_strides(&mut strides, shape, size);
    strides
}

/// Writes the strides of a row-major array. There are as many strides as extents.
pub fn set_contiguous_strides(strides: &mut [isize], shape: &[usize], size: usize) {
    let mut step = size as isize;
    for (stride, n) in strides.iter_mut().zip(shape).rev() {
        *stride = step;
        step = step.saturating_mul((*n).max(1) as isize);
    }
}

/// A class of strides, such as the one that a framework's import accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strides {
    /// Row-major without gaps.
    Contiguous,
    /// Without gaps in some order of the axes.
    Permuted,
    /// Any strides that are not negative.
    Positive,
    /// Any strides.
    Any,
}

/// Returns whether the elements follow one another in C order.
pub fn is_contiguous(shape: &[usize], strides: &[isize], itemsize: usize) -> bool {
    shape.contains(&0) || contiguous_end(shape, strides, itemsize).is_some()
}

/// The size in bytes of an array with elements that follow one another in C order; `None` if they do not, if
/// there are no elements, and if it overflows.
#[inline]
pub fn contiguous_end(shape: &[usize], strides: &[isize], itemsize: usize) -> Option<usize> {
    dense_end(shape.iter().copied().zip(strides.iter().copied()).rev(), itemsize)
}

/// Returns whether the elements follow one another in some order of the axes, with positive
/// strides.
pub fn is_permuted_contiguous(shape: &[usize], strides: &[isize], itemsize: usize) -> bool {
    if shape.contains(&0) {
        return true;
    }
    let mut axes: SmallVec<[(usize, isize); 8]> =
        shape.iter().copied().zip(strides.iter().copied()).filter(|axis| axis.0 > 1).collect();
    axes.sort_unstable_by_key(|axis| axis.1);
    dense_end(axes.into_iter(), itemsize).is_some()
}

/// Returns whether an axis with more than one element has a negative stride.
pub fn has_negative(shape: &[usize], strides: &[isize]) -> bool {
    !shape.contains(&0) && shape.iter().zip(strides).any(|(len, stride)| *len > 1 && *stride < 0)
}

/// The range of bytes that a strided array covers, relative to its first element: the lowest offset, and the
/// offset past the last byte. Both are zero if there are no elements. `None` if they overflow.
pub fn extent(shape: &[usize], strides: &[isize], itemsize: usize) -> Option<(isize, isize)> {
    if shape.contains(&0) {
        return Some((0, 0));
    }
    let mut lowest = 0_isize;
    let mut end = isize::try_from(itemsize).ok()?;
    for (len, stride) in shape.iter().zip(strides) {
        let reach = isize::try_from(len - 1).ok()?.checked_mul(*stride)?;
        if reach < 0 {
            lowest = lowest.checked_add(reach)?;
        } else {
            end = end.checked_add(reach)?;
        }
    }
    Some((lowest, end))
}

/// The size in bytes of a contiguous array; `None` if it overflows.
pub fn contiguous_bytes(shape: &[usize], itemsize: usize) -> Option<usize> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(itemsize, |bytes, len| bytes.checked_mul(*len))
}

/// The size in bytes of elements each of whose axes, from the fastest to the slowest, steps over exactly what
/// the previous ones cover; `None` if they do not.
#[inline]
fn dense_end(mut axes: impl Iterator<Item = (usize, isize)>, itemsize: usize) -> Option<usize> {
    axes.try_fold(itemsize, |end, (len, stride)| match len {
        1 => Some(end),
        _ if usize::try_from(stride) == Ok(end) => end.checked_mul(len).filter(|end| *end > 0),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
