//! The order in which the elements of a strided array are visited.

use std::ops::Range;

use smallvec::SmallVec;

use super::dtype::DType;

/// A strided array in host memory.
#[derive(Clone, Copy, Debug)]
pub struct StridedArray<'a> {
    /// The address of the element at index zero, which need not be aligned.
    pub data: *const u8,
    /// The length of each axis.
    pub shape: &'a [usize],
    /// The bytes from one element to the next along each axis.
    pub strides: &'a [isize],
    /// The element type.
    pub dtype: DType,
    /// True if the bytes of each number are in the opposite of the machine's order.
    pub swapped: bool,
}

/// The pointers of an operation whose parts run on several threads.
#[derive(Clone, Copy)]
pub(super) struct Pointers {
    pub dst: *mut u8,
    pub src: *const u8,
}

// SAFETY: the threads read memory that nobody writes to, and write to parts that do not overlap.
unsafe impl Send for Pointers {}
// SAFETY: the threads read memory that nobody writes to, and write to parts that do not overlap.
unsafe impl Sync for Pointers {}

impl Pointers {
    /// The pointers this many bytes further. A closure that calls this captures the pair, which is `Sync`, and not
    /// its fields.
    ///
    /// # Safety
    ///
    /// The places are inside both arrays, or at their ends.
    #[inline(always)]
    pub unsafe fn at(&self, dst: usize, src: isize) -> Pointers {
        // SAFETY: as the caller promises.
        unsafe { Pointers { dst: self.dst.add(dst), src: self.src.offset(src) } }
    }
}

/// An axis: its length, its stride in the source in bytes, and in the target in elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    pub len: usize,
    pub src: isize,
    pub dst: usize,
}

/// A strided array with elements, with as few axes as describe it in C order.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    outer: SmallVec<[Axis; 6]>,
    /// The innermost axis, whose elements are adjacent in the target.
    cols: Axis,
}

/// Two axes of a walk, as the two innermost loops.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plane {
    pub rows: Axis,
    pub cols: Axis,
    /// True if elements are closer in the source along the rows than along the columns. Then the
    /// plane is best read in tiles.
    pub tiled: bool,
}

/// The planes of a walk. They differ only in where they begin.
#[derive(Clone, Debug)]
pub(super) struct Planes {
    pub plane: Plane,
    outer: SmallVec<[Axis; 6]>,
}

impl Walk {
    /// The walk to a target in C order; `None` if there are no elements.
    pub fn new(shape: &[usize], strides: &[isize], itemsize: usize) -> Option<Walk> {
        let mut step = 1_usize;
        let axes = shape.iter().zip(strides).rev().map(|(&len, &src)| {
            let dst = step;
            step = dst.wrapping_mul(len);
            Axis { len, src, dst }
        });
        Walk::of(axes, itemsize)
    }

    /// The walk to a target in which the elements along each axis are `steps` elements apart.
    pub fn to(
        shape: &[usize],
        strides: &[isize],
        steps: &[usize],
        itemsize: usize,
    ) -> Option<Walk> {
        let axes = shape.iter().zip(strides).zip(steps).rev();
        Walk::of(axes.map(|((&len, &src), &dst)| Axis { len, src, dst }), itemsize)
    }

    /// The walk along axes, the innermost first.
    #[inline(always)]
    fn of(inward: impl Iterator<Item = Axis>, itemsize: usize) -> Option<Walk> {
        let mut axes: SmallVec<[Axis; 6]> = SmallVec::new();
        for axis in inward {
            match axes.last_mut() {
                _ if axis.len == 0 => return None,
                _ if axis.len == 1 => {}
                Some(inner)
                    if inner.src.wrapping_mul(inner.len as isize) == axis.src
                        && inner.dst.wrapping_mul(inner.len) == axis.dst =>
                {
                    inner.len *= axis.len;
                }
                _ => axes.push(axis),
            }
        }
        axes.reverse();
        // Elements of a target with gaps between them are columns of one.
        let is_tight = axes.last().is_some_and(|inner| inner.dst == 1);
        let inner = if is_tight { axes.pop() } else { None };
        let cols = inner.unwrap_or(Axis { len: 1, src: itemsize as isize, dst: 1 });
        Some(Walk { outer: axes, cols })
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.outer.iter().map(|axis| axis.len).product::<usize>() * self.cols.len
    }

    /// The axis to split over `parts` threads: the outermost one that is long enough, or the longest.
    pub fn split_axis(&self, parts: usize) -> (usize, Axis) {
        let axes = || self.outer.iter().chain([&self.cols]).copied().enumerate();
        let longest = || axes().max_by_key(|(_, axis)| axis.len);
        axes().find(|(_, axis)| axis.len >= 8 * parts).or_else(longest).unwrap_or((0, self.cols))
    }

    /// The walk over a part of one axis, with its offset in the source (bytes) and the target (elements).
    pub fn part(&self, index: usize, range: Range<usize>) -> (Walk, isize, usize) {
        let mut walk = self.clone();
        let axis = walk.outer.get_mut(index).unwrap_or(&mut walk.cols);
        let start = (range.start as isize * axis.src, range.start * axis.dst);
        axis.len = range.len();
        (walk, start.0, start.1)
    }

    /// The planes that the walk goes through, one after the other.
    pub fn planes(&self) -> Planes {
        let mut outer = self.outer.clone();
        let (rows, tiled) = self.take_rows(&mut outer);
        Planes { plane: Plane { rows, cols: self.cols, tiled }, outer }
    }

    /// Removes the axis that becomes the rows of a plane from the outer ones: the one along which elements
    /// are closest in the source, if that is closer than along the columns, or the innermost. The flag says
    /// that it is the former.
    fn take_rows(&self, outer: &mut SmallVec<[Axis; 6]>) -> (Axis, bool) {
        let closer = |axis: &Axis| axis.src != 0 && axis.src.abs() < self.cols.src.abs();
        let closest =
            (0..outer.len()).filter(|i| closer(&outer[*i])).min_by_key(|i| outer[*i].src.abs());
        match closest {
            Some(index) => (outer.remove(index), true),
            None => (outer.pop().unwrap_or(Axis { len: 1, src: 0, dst: 0 }), false),
        }
    }
}

impl Planes {
    /// Calls `f` for every plane, with its offset in the source (bytes) and the target (elements).
    pub fn each(&self, mut f: impl FnMut(isize, usize)) {
        let Planes { outer, .. } = self;
        let mut index: SmallVec<[usize; 6]> = SmallVec::from_elem(0, outer.len());
        let (mut src, mut dst) = (0_isize, 0_usize);
        loop {
            f(src, dst);
            // Counts the indices up like the digits of a number, the innermost first.
            let mut axis = outer.len();
            loop {
                if axis == 0 {
                    return;
                }
                axis -= 1;
                let Axis { len, src: step, dst: dst_step } = outer[axis];
                index[axis] += 1;
                if index[axis] < len {
                    src += step;
                    dst += dst_step;
                    break;
                }
                index[axis] = 0;
                src -= step * (len as isize - 1);
                dst -= dst_step * (len - 1);
            }
        }
    }
}

/// The place of a tile in its plane.
#[derive(Clone, Copy, Debug)]
pub(super) struct TilePlace {
    /// The offset in the source, in bytes.
    pub src: isize,
    /// The offset in the target, in elements.
    pub dst: usize,
    /// The columns before those of the tile, and its own.
    pub before: usize,
    pub cols: usize,
    /// True if no columns come after those of the tile.
    pub is_last: bool,
}

impl Plane {
    /// Calls `f` for tiles of at most `rows` by `cols`, one row of tiles after the other, each from left to right.
    pub fn tiles(&self, (rows, cols): (usize, usize), mut f: impl FnMut(&Plane, TilePlace)) {
        for row in (0..self.rows.len).step_by(rows) {
            for col in (0..self.cols.len).step_by(cols) {
                let mut tile = *self;
                tile.rows.len = rows.min(self.rows.len - row);
                tile.cols.len = cols.min(self.cols.len - col);
                let src = row as isize * self.rows.src + col as isize * self.cols.src;
                let dst = row * self.rows.dst + col * self.cols.dst;
                let (cols, is_last) = (tile.cols.len, col + tile.cols.len == self.cols.len);
                f(&tile, TilePlace { src, dst, before: col, cols, is_last });
            }
        }
    }
}
