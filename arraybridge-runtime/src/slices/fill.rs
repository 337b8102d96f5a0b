//! Copies several host arrays into one, which was allocated for them.
//!
//! A row of the result is one position along the axes before the joined one. It consists of runs: the
//! elements of each array at that position, one array after the other.

use std::ops::Range;

use pyo3::prelude::*;
use smallvec::SmallVec;

use super::check::Along;
use crate::convert::Opened;
use crate::framework::spec::DType;
use crate::host::cast::{CastError, CastReport, Scaling, StridedArray, cast_strided};
use crate::host::copy;
use crate::host::parallel::{self, Threads};
use crate::memory::cast;
use crate::memory::source::Source;
use crate::memory::view::{Dims, View};

/// The share of the result, an 8th, up to which an array is small. If all arrays are small, each
/// thread copies several of them; otherwise each array is split over threads.
const SMALL_PART: usize = 8;

/// Fills the result with the arrays, cast to its dtype.
///
/// # Errors
///
/// [`CastError`] when a complex array would become real.
pub(super) fn fill(
    py: Python<'_>,
    result: &mut Source,
    arrays: &[Opened],
    along: Along,
) -> Result<(), CastError> {
    let axis = match along {
        Along::NewAxis => 0,
        Along::Axis(axis) => axis,
    };
    let result = result.view();
    let mut offset = 0;
    let mut pieces = Vec::with_capacity(arrays.len());
    for opened in arrays {
        let piece = Piece::new(opened.source.view(), axis, offset);
        offset += piece.run_bytes(result.dtype());
        pieces.push(piece);
    }
    if result.is_empty() {
        return Ok(());
    }
    let is_large = result.nbytes() >= cast::DETACH_FROM;
    let is_small = |piece: &Piece| piece.run_bytes(result.dtype()) <= offset / SMALL_PART;
    let (each, across) = match is_large && pieces.iter().all(is_small) {
        true => (Threads::ONE, Threads::Several),
        false => (Threads::for_large(is_large), Threads::ONE),
    };
    let rows = Rows::of(result, axis, each);
    let copy = |range: Range<usize>| {
        pieces[range].iter().try_for_each(|piece| {
            // SAFETY: `result` and `arrays` are borrowed until this function returns, and their owners
            // keep the memory alive that the views describe. `result` owns its memory, which has room
            // for all rows, and is borrowed mutably, so that nobody else reads or writes it and it
            // overlaps no array; threads copy different arrays, to different places. That no other
            // thread writes to the arrays meanwhile is assumed of Python threads: see "What is assumed of
            // Python threads" in ARCHITECTURE.md.
            unsafe { rows.copy_from(piece) }
        })
    };
    if !is_large {
        return copy(0..pieces.len());
    }
    let bytes = result.nbytes().saturating_mul(2);
    py.detach(|| parallel::run(across, pieces.len(), bytes, copy).into_iter().collect())
}

/// Copies an array to a region of the result, which has its dtype and its axes. The region begins at these
/// positions along the axes.
///
/// # Errors
///
/// The errors of [`fill`].
///
/// # Panics
///
/// Panics if the result has no such region.
pub(super) fn fill_region(
    py: Python<'_>,
    result: &mut Source,
    part: &Source,
    starts: &[usize],
) -> Result<(), CastError> {
    let (result, part) = (result.view(), part.view());
    let (whole, lengths) = (result.shape(), part.shape());
    assert!(lengths.len() == whole.len() && starts.len() == whole.len());
    assert!((0..whole.len()).all(|axis| starts[axis] + lengths[axis] <= whole[axis]));
    assert!(part.dtype() == result.dtype());
    if part.is_empty() {
        return Ok(());
    }
    // Along the axes after this one, the region is the whole result, so that a run has no gaps.
    let axis = (0..whole.len()).rev().find(|axis| lengths[*axis] != whole[*axis]).unwrap_or(0);
    let size = result.dtype().size();
    let offset = starts.iter().zip(row_strides(whole, size)).map(|(start, stride)| start * stride);
    let piece = Piece::new(part, axis, offset.sum());
    let is_large = part.nbytes() >= cast::DETACH_FROM;
    let rows = Rows::of(result, axis, Threads::for_large(is_large));
    let copy = || {
        // SAFETY: `result` and `part` are borrowed until this function returns, and their owners keep the
        // memory alive that the views describe. `result` owns its memory, which has the region, as the
        // shapes say, and is borrowed mutably, so that nobody else reads or writes it and it does not
        // overlap the part. That no other thread writes to the part meanwhile is assumed of
        // Python threads: see "Assumptions about Python threads" in ARCHITECTURE.md.
        unsafe { rows.copy_from(&piece) }
    };
    if is_large { py.detach(copy) } else { copy() }
}

/// Writes an array to a row of a stack, cast to its dtype, and counts what was lost.
///
/// # Errors
///
/// [`CastError`] when a complex array would become real.
///
/// # Panics
///
/// Panics if the stack has no such row, or the shape of its rows is not that of the array.
pub(super) fn fill_row(
    py: Python<'_>,
    stack: &mut Source,
    row: usize,
    array: &Source,
    scaling: Scaling,
) -> Result<CastReport, CastError> {
    let (stack, array) = (stack.view(), array.view());
    assert!(row < stack.shape()[0] && stack.shape()[1..] == *array.shape());
    let piece = Piece::new(array, 0, 0);
    let row_bytes = piece.run_bytes(stack.dtype());
    if row_bytes == 0 {
        return Ok(CastReport::default());
    }
    let is_large = row_bytes.max(array.nbytes()) >= cast::DETACH_FROM;
    let rows = Rows {
        address: stack.data() as usize + row * row_bytes,
        strides: Dims::new(),
        dtype: stack.dtype(),
        threads: Threads::for_large(is_large),
    };
    let copy = || {
        let (run, data) = (rows.address as *mut u8, piece.address as *const u8);
        // SAFETY: `stack` and `array` are borrowed until this function returns, and their owners keep the
        // memory alive that the views describe. `stack` owns its memory and is borrowed mutably, and arrays
        // that a framework had of its rows are gone, so that nobody else reads or writes it and it does not
        // overlap the array. It has the row, which has the shape of the array. That no other thread writes
        // to the array meanwhile is assumed of Python threads: see "Assumptions about Python threads" in
        // ARCHITECTURE.md.
        unsafe { rows.copy_run(run, data, &piece, scaling) }
    };
    if is_large { py.detach(copy) } else { copy() }
}

/// Sets the rows of a stack from `row` on to zero.
pub(super) fn clear_rows(stack: &mut Source, row: usize) {
    let view = stack.view();
    let row_bytes = view.shape()[1..].iter().product::<usize>() * view.dtype().size();
    let bytes = view.nbytes().saturating_sub(row * row_bytes);
    // SAFETY: `stack` owns its contiguous memory and is borrowed mutably; the bytes from this row on are
    // inside of it.
    unsafe { view.data().add(view.nbytes() - bytes).write_bytes(0, bytes) };
}

/// The memory of the result. Its address is an integer, since raw pointers do not cross `detach`.
struct Rows {
    address: usize,
    /// The strides of the axes before the joined one, in bytes.
    strides: Dims<isize>,
    dtype: DType,
    threads: Threads,
}

impl Rows {
    /// The rows of a contiguous array: one for each position along the axes before one.
    fn of(result: &View, axis: usize, threads: Threads) -> Rows {
        Rows {
            address: result.data() as usize,
            strides: row_strides(result.shape(), result.dtype().size())
                .take(axis)
                .map(|stride| stride as isize)
                .collect(),
            dtype: result.dtype(),
            threads,
        }
    }

    /// Copies an array to its place in every row.
    ///
    /// # Safety
    ///
    /// Every element of the array can be read and is not written meanwhile. The rows can be written,
    /// nobody else reads or writes them meanwhile, they have room for the runs of the array, and they
    /// do not overlap it.
    unsafe fn copy_from(&self, piece: &Piece) -> Result<(), CastError> {
        let first = self.address + piece.offset;
        let strides = [&piece.outer.strides[..], &self.strides[..]];
        for_each_offset(&piece.outer.shape, strides, |[from, to]| {
            let data = piece.address.wrapping_add_signed(from) as *const u8;
            let run = first.wrapping_add_signed(to) as *mut u8;
            // SAFETY: `data` is the first element of a run of the array, and `run` is the place of this
            // run in its row; both satisfy the conditions of this function.
            unsafe { self.copy_run(run, data, piece, Scaling::Clamp) }.map(drop)
        })
    }

    /// Copies one run, and casts it if the dtypes differ.
    ///
    /// # Safety
    ///
    /// `data` is the first element of a run of the array. Its elements can be read and are not written
    /// meanwhile. `run` can be written, is not accessed by anybody else meanwhile, has room for the
    /// elements in the result's dtype, and does not overlap them.
    unsafe fn copy_run(
        &self,
        run: *mut u8,
        data: *const u8,
        piece: &Piece,
        scaling: Scaling,
    ) -> Result<CastReport, CastError> {
        let &Piece { dtype, swap, .. } = piece;
        let (shape, strides) = (&piece.inner.shape[..], &piece.inner.strides[..]);
        if dtype == self.dtype {
            // SAFETY: the conditions of this function are those of `gather`; the shape and the strides
            // are parts of one view and equally long, and `swap` is the view's swap unit, which divides
            // the size of an element.
            unsafe { copy::gather(run, data, shape, strides, dtype.size(), swap, self.threads) };
            return Ok(CastReport::default());
        }
        let source = StridedArray { data, shape, strides, dtype, swap };
        // SAFETY: the conditions of this function are those of `cast_strided`; the shape, the strides
        // and the swap unit are those of one view.
        unsafe { cast_strided(run, self.dtype, source, scaling, self.threads) }
    }
}

/// One of the arrays. Its address is an integer, since raw pointers do not cross `detach`.
struct Piece {
    address: usize,
    dtype: DType,
    swap: Option<usize>,
    /// The axes before the joined one.
    outer: Axes,
    /// The joined axis and those after it.
    inner: Axes,
    /// The offset of its run in each row of the result, in bytes.
    offset: usize,
}

struct Axes {
    shape: Dims<usize>,
    /// The strides in bytes.
    strides: Dims<isize>,
}

impl Piece {
    fn new(view: &View, axis: usize, offset: usize) -> Piece {
        let (outer_shape, inner_shape) = view.shape().split_at(axis);
        let (outer_strides, inner_strides) = view.strides().split_at(axis);
        Piece {
            address: view.data() as usize,
            dtype: view.dtype(),
            swap: view.swap_unit(),
            outer: Axes { shape: outer_shape.into(), strides: outer_strides.into() },
            inner: Axes { shape: inner_shape.into(), strides: inner_strides.into() },
            offset,
        }
    }

    /// The size of a run in a result of this dtype.
    fn run_bytes(&self, dtype: DType) -> usize {
        self.inner.shape.iter().product::<usize>() * dtype.size()
    }
}

/// The strides of a contiguous array, in bytes.
fn row_strides(shape: &[usize], size: usize) -> impl Iterator<Item = usize> {
    (1..=shape.len()).map(move |axis| shape[axis..].iter().product::<usize>() * size)
}

/// Calls `each` with the byte offsets of every position along some axes of several arrays, in C order.
fn for_each_offset<E, const N: usize>(
    shape: &[usize],
    strides: [&[isize]; N],
    mut each: impl FnMut([isize; N]) -> Result<(), E>,
) -> Result<(), E> {
    if shape.contains(&0) {
        return Ok(());
    }
    let mut index: SmallVec<[usize; 6]> = shape.iter().map(|_| 0).collect();
    let mut offsets = [0; N];
    loop {
        each(offsets)?;
        let Some(axis) = (0..shape.len()).rev().find(|axis| index[*axis] + 1 < shape[*axis]) else {
            return Ok(());
        };
        for (offset, strides) in offsets.iter_mut().zip(strides) {
            *offset += strides[axis];
            *offset -=
                (axis + 1..shape.len()).map(|a| index[a] as isize * strides[a]).sum::<isize>();
        }
        index[axis + 1..].fill(0);
        index[axis] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offsets(shape: &[usize], strides: &[isize]) -> Vec<isize> {
        let mut found = Vec::new();
        let collect = |[offset, twice]: [isize; 2]| {
            assert_eq!(twice, 2 * offset);
            found.push(offset);
            Ok::<_, ()>(())
        };
        let doubled: Vec<_> = strides.iter().map(|stride| 2 * stride).collect();
        for_each_offset(shape, [strides, &doubled], collect).unwrap();
        found
    }

    #[test]
    fn offsets_follow_the_positions_in_c_order() {
        assert_eq!(offsets(&[], &[]), [0]);
        assert_eq!(offsets(&[3], &[-4]), [0, -4, -8]);
        assert_eq!(offsets(&[2, 3], &[100, 1]), [0, 1, 2, 100, 101, 102]);
        assert_eq!(offsets(&[2, 1, 2], &[10, 7, 0]), [0, 0, 10, 10]);
        assert!(offsets(&[2, 0], &[10, 7]).is_empty());
    }
}
