//! A pass over the source: the cast, or the search for its extremes or for integers that will be rounded.

use super::kernel::{Extremes, Losses};
use super::plan::{BLOCK, Block, CastPlan, MAX_ITEM_SIZE};
use crate::cache::finish_stream;
use crate::copy::{self, ItemBytes, band::Band};
use crate::walk::{Plane, Pointers, Walk};

/// The columns of a tile whose source is closer along the rows than along the columns. It has more if the plane has
/// few rows, and fewer if the plane does.
const TILE_COLS: usize = 32;

/// The purpose of a pass.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Goal {
    Extremes,
    Rounded,
    Cast,
}

/// The findings of a pass.
pub(super) struct Found {
    pub losses: Losses,
    pub min: f64,
    pub max: f64,
    pub rounded: u64,
}

impl Default for Found {
    fn default() -> Found {
        let (min, max) = (f64::INFINITY, f64::NEG_INFINITY);
        Found { losses: Losses::default(), min, max, rounded: 0 }
    }
}

impl Found {
    /// The findings of two passes together.
    pub fn and(mut self, other: Found) -> Found {
        self.losses += other.losses;
        Found {
            losses: self.losses,
            min: self.min.min(other.min),
            max: self.max.max(other.max),
            rounded: self.rounded + other.rounded,
        }
    }
}

/// A pass over one thread's part of the source.
pub(super) struct Pass<'a> {
    plan: &'a CastPlan,
    items: ItemBytes,
    goal: Goal,
    found: Found,
}

impl<'a> Pass<'a> {
    pub fn new(plan: &'a CastPlan, items: ItemBytes, goal: Goal) -> Pass<'a> {
        Pass { plan, items, goal, found: Found::default() }
    }

    /// # Safety
    ///
    /// The conditions of [`cast_strided`](super::run::cast_strided).
    pub unsafe fn run(mut self, start: Pointers, walk: &Walk) -> Found {
        let (src_size, dst_size) = (self.plan.src_size, self.plan.dst_size);
        let planes = walk.planes();
        let plane = &planes.plane;
        planes.each(|from, to| {
            // SAFETY: the planes of a walk are inside both arrays.
            unsafe {
                let first = start.at(to * dst_size, from);
                // A call for each row pays only if the rows are long.
                let direct = plane.cols.src == src_size as isize && self.items.unit == 1;
                if direct && (plane.cols.len >= BLOCK / 16 || plane.rows.len == 1) {
                    self.convert_rows(first, plane);
                } else {
                    self.convert_tiles(first, plane);
                }
            }
        });
        if self.plan.params.stream {
            finish_stream();
        }
        self.found
    }

    /// Converts rows that are contiguous in the source.
    ///
    /// # Safety
    ///
    /// The conditions of [`cast_strided`](super::run::cast_strided).
    unsafe fn convert_rows(&mut self, start: Pointers, plane: &Plane) {
        for row in 0..plane.rows.len {
            // SAFETY: the row is inside both arrays.
            unsafe {
                let to = row * plane.rows.dst * self.plan.dst_size;
                let first = start.at(to, row as isize * plane.rows.src);
                self.convert(first, plane.cols.len, self.plan.params.stream);
            }
        }
    }

    /// Converts tiles through a contiguous block, and through another one if the rows of a tile are not
    /// adjacent in the target.
    ///
    /// # Safety
    ///
    /// The conditions of [`cast_strided`](super::run::cast_strided).
    // Inlined, its large frame would be a cost of every cast.
    #[inline(never)]
    unsafe fn convert_tiles(&mut self, start: Pointers, plane: &Plane) {
        let dst_size = self.plan.dst_size;
        let cols = match plane.tiled {
            true => TILE_COLS.min(plane.cols.len).max(BLOCK / plane.rows.len),
            false => plane.cols.len.clamp(1, BLOCK),
        };
        let (mut block, mut done) = (Block::new(), Block::new());
        let (block, done) = (block.as_mut_ptr(), done.as_mut_ptr());
        // Tiles with more columns have fewer rows, and need no more room. Those with fewer columns do.
        const { assert!(Band::holds(BLOCK / TILE_COLS, TILE_COLS * MAX_ITEM_SIZE)) };
        let mut band = Band::new(cols, dst_size);
        let stream = self.plan.params.stream && plane.tiled && cols >= TILE_COLS;
        plane.tiles((BLOCK / cols, cols), |tile, at| {
            let (rows, cols) = (tile.rows.len, tile.cols.len);
            let mut contiguous = *tile;
            contiguous.rows.dst = cols;
            // SAFETY: the tile is inside both arrays, and a block has room for its elements. So has the band, if it
            // is used.
            unsafe {
                let Pointers { dst, src } = start.at(at.dst * dst_size, at.src);
                copy::copy_plane(Pointers { dst: block, src }, &contiguous, self.items);
                if rows == 1 || tile.rows.dst == cols {
                    self.convert(Pointers { dst, src: block }, rows * cols, false);
                    return;
                }
                self.convert(Pointers { dst: done, src: block }, rows * cols, false);
                if self.goal != Goal::Cast {
                    return;
                }
                let bytes = cols * dst_size;
                for row in 0..rows {
                    let (from, to) =
                        (done.add(row * bytes), dst.add(row * tile.rows.dst * dst_size));
                    if stream {
                        band.row(row).copy_from_nonoverlapping(from, bytes);
                        band.write(row, to, at);
                    } else {
                        to.copy_from_nonoverlapping(from, bytes);
                    }
                }
            }
        });
    }

    /// Converts contiguous elements.
    ///
    /// # Safety
    ///
    /// The conditions of [`Kernel`](super::kernel::Kernel).
    unsafe fn convert(&mut self, at: Pointers, len: usize, stream: bool) {
        let plan = self.plan;
        // SAFETY: source and target hold the elements and do not overlap.
        unsafe {
            match (self.goal, plan.extremes) {
                (Goal::Cast, _) => self.found.losses += plan.run(at, len, stream),
                (Goal::Extremes, Some(extremes)) => self.find_extremes(extremes, at.src, len),
                (Goal::Extremes, None) => {}
                (Goal::Rounded, _) => {
                    let count = plan.rounded.map_or(0, |(count, bits)| count(at.src, len, bits));
                    self.found.rounded += count;
                }
            }
        }
    }

    /// Finds the extremes of contiguous elements, decoding them first if necessary.
    ///
    /// # Safety
    ///
    /// The conditions of [`Extremes`], with elements of the source's type.
    unsafe fn find_extremes(&mut self, extremes: Extremes, src: *const u8, len: usize) {
        let plan = self.plan;
        let mut block = Block::new();
        let block = block.as_mut_ptr();
        let stride = if plan.decode.is_none() { len } else { BLOCK };
        for start in (0..len).step_by(stride.max(1)) {
            let count = stride.min(len - start);
            // SAFETY: the source holds the elements, and the block has room for decoded ones.
            let (min, max) = unsafe {
                let mut src = src.add(start * plan.src_size);
                if let Some(decode) = plan.decode {
                    decode(block, src, count, &plan.params);
                    src = block;
                }
                extremes(src, count)
            };
            self.found.min = self.found.min.min(min);
            self.found.max = self.found.max.max(max);
        }
    }
}
