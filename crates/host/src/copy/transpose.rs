//! Copies of planes whose source is contiguous along the rows, in tiles.
//!
//! In the source, the lines of a tile are often a power of two apart, so that they evict each other from the
//! cache. So each is read once, as a whole, and blocks of elements are transposed in registers into a local
//! copy of the tile, whose rows are then written as a whole.

use std::array;

#[cfg(target_arch = "x86_64")]
use super::avx2;
use super::band::Band;
use super::{Bits, copy_rows};
use crate::cache::{LINE, prefetch};
#[cfg(target_arch = "x86_64")]
use crate::processor::has_avx2;
use crate::walk::Plane;

/// The rows and columns of a tile. A line of the source has 256 or 512 bytes in it, a row of the target one to four
/// cache lines. For items of each size this was the fastest shape measured whose tile and local copy fit in the L1 cache,
/// or nearly.
const fn tile_shape(itemsize: usize) -> (usize, usize) {
    match itemsize {
        1 => (256, 64),
        2 => (128, 64),
        3..=4 => (128, 32),
        5..=8 => (64, 32),
        _ => (32, 16),
    }
}

/// A target whose rows are this many bytes apart, or fewer, stays in the cache.
const CLOSE: usize = 512;

/// Copies a plane whose source is contiguous along the rows, through blocks of `B` rows. With `stream`, whole cache
/// lines of the target bypass the caches.
///
/// # Safety
///
/// The conditions of [`gather`](super::gather), with items of the size of `T`.
pub(super) unsafe fn transpose<T: Bits, const ORDER: u8, const B: usize>(
    dst: *mut u8,
    src: *const u8,
    plane: &Plane,
    stream: bool,
) {
    let itemsize = size_of::<T>();
    let (rows, cols) = const { tile_shape(size_of::<T>()) };
    // Less than a cache line per side is not worth a block, and close rows of a target need no local copy.
    if plane.rows.len.min(plane.cols.len) * itemsize < LINE {
        // SAFETY: as the caller promises.
        unsafe { copy_thin::<T, ORDER>(dst, src, plane) };
    } else if plane.rows.dst * itemsize > CLOSE {
        // SAFETY: as the caller promises.
        unsafe { transpose_locally::<T, ORDER, B>(dst, src, plane, stream) };
    } else {
        plane.tiles((rows, cols), |tile, at| {
            // SAFETY: the tiles of a plane lie inside it.
            unsafe {
                let (dst, src) = (dst.add(at.dst * itemsize), src.offset(at.src));
                transpose_tile::<T, ORDER, B>(dst, tile.rows.dst * itemsize, src, tile);
            }
        });
    }
}

/// Copies a plane of few rows or few columns in long tiles.
///
/// # Safety
///
/// The conditions of [`transpose`].
unsafe fn copy_thin<T: Bits, const ORDER: u8>(dst: *mut u8, src: *const u8, plane: &Plane) {
    let (rows, cols) = const { tile_shape(size_of::<T>()) };
    let by_rows = plane.rows.len < plane.cols.len;
    let shape = match by_rows {
        true => (plane.rows.len, rows * cols / plane.rows.len),
        false => (rows * cols / plane.cols.len, plane.cols.len),
    };
    plane.tiles(shape, |tile, at| {
        // SAFETY: the tiles of a plane lie inside it.
        unsafe {
            let (dst, src) = (dst.add(at.dst * size_of::<T>()), src.offset(at.src));
            match by_rows {
                true => copy_rows::<T, ORDER>(dst, src, tile),
                false => copy_cols::<T, ORDER>(dst, src, tile),
            }
        }
    });
}

/// Copies a plane column by column.
///
/// # Safety
///
/// The conditions of [`transpose`].
#[inline(always)]
unsafe fn copy_cols<T: Bits, const ORDER: u8>(dst: *mut u8, src: *const u8, plane: &Plane) {
    let Plane { rows, cols, .. } = *plane;
    for col in 0..cols.len {
        // SAFETY: the column is inside both arrays, which do not overlap. No alignment is assumed.
        unsafe {
            let src = src.offset(col as isize * cols.src).cast::<T>();
            let dst = dst.cast::<T>().add(col);
            for row in 0..rows.len {
                let item = src.add(row).read_unaligned();
                dst.add(row * rows.dst).write_unaligned(item.with_order::<ORDER>());
            }
        }
    }
}

/// Does what [`transpose`] does, with a local copy of each tile.
///
/// # Safety
///
/// The conditions of [`transpose`].
// Inlined, its large frame would be a cost of every copy.
#[inline(never)]
unsafe fn transpose_locally<T: Bits, const ORDER: u8, const B: usize>(
    dst: *mut u8,
    src: *const u8,
    plane: &Plane,
    stream: bool,
) {
    let itemsize = size_of::<T>();
    let (rows, cols) = const { tile_shape(size_of::<T>()) };
    const {
        let (rows, cols) = tile_shape(size_of::<T>());
        assert!(Band::holds(rows, cols * size_of::<T>()));
    }
    let mut band = Band::new(cols, itemsize);
    plane.tiles((rows, cols), |tile, at| {
        // SAFETY: the tiles of a plane lie inside it, and the band holds one.
        unsafe {
            transpose_tile::<T, ORDER, B>(band.row(0), band.pitch, src.offset(at.src), tile);
            for row in 0..tile.rows.len {
                let to = dst.add((at.dst + row * tile.rows.dst) * itemsize);
                if stream {
                    band.write(row, to, at);
                } else {
                    to.copy_from_nonoverlapping(band.row(row), at.cols * itemsize);
                }
            }
        }
    });
}

/// Copies a tile. The rows of the target are `pitch` bytes apart.
///
/// # Safety
///
/// Source and target have the elements, and do not overlap. They need not be aligned.
unsafe fn transpose_tile<T: Bits, const ORDER: u8, const B: usize>(
    dst: *mut u8,
    pitch: usize,
    src: *const u8,
    tile: &Plane,
) {
    #[cfg(target_arch = "x86_64")]
    if size_of::<T>() <= 8 && has_avx2() {
        // SAFETY: as the caller promises, on a processor with these instructions.
        unsafe { avx2::transpose_tile::<T, ORDER, B>(dst, pitch, src, tile) };
        return;
    }
    // SAFETY: as the caller promises.
    unsafe { tile_in_blocks::<T, ORDER, B, false>(dst, pitch, src, tile) };
}

/// Copies a tile in blocks of `B` by `B` elements, with `AVX2` in blocks of `B` rows and twice as many columns. The
/// rest is copied one by one.
///
/// # Safety
///
/// The conditions of [`transpose_tile`]. With `AVX2`, the processor has it, and 16 bytes have `B`
/// elements.
#[inline(always)]
pub(super) unsafe fn tile_in_blocks<T: Bits, const ORDER: u8, const B: usize, const AVX2: bool>(
    dst: *mut u8,
    pitch: usize,
    src: *const u8,
    tile: &Plane,
) {
    let block_cols = if AVX2 { 2 * B } else { B };
    let itemsize = size_of::<T>();
    let (rows, cols, stride) = (tile.rows.len, tile.cols.len, tile.cols.src);
    let in_blocks = (rows - rows % B, cols - cols % block_cols);
    let line = |col: usize| src.wrapping_offset(col as isize * stride);
    // SAFETY: the tile has this many rows and columns in both arrays.
    unsafe {
        for col in (0..in_blocks.1).step_by(block_cols) {
            for next in col + cols..col + cols + block_cols {
                // Processors foresee reads of one line after the other, not those of a tile.
                prefetch(line(next), rows * itemsize);
            }
            for row in (0..in_blocks.0).step_by(B) {
                let to = dst.add(row * pitch + col * itemsize);
                let from = line(col).add(row * itemsize);
                #[cfg(target_arch = "x86_64")]
                if AVX2 {
                    avx2::transpose_block::<T, ORDER, B>(to, pitch, from, stride);
                    continue;
                }
                transpose_block::<T, ORDER, B>(to, pitch, from, stride);
            }
        }
        for col in 0..cols {
            let first = if col < in_blocks.1 { in_blocks.0 } else { 0 };
            for row in first..rows {
                let item = line(col).cast::<T>().add(row).read_unaligned();
                let to = dst.add(row * pitch + col * itemsize).cast::<T>();
                to.write_unaligned(item.with_order::<ORDER>());
            }
        }
    }
}

/// Transposes `B` by `B` elements.
///
/// # Safety
///
/// The conditions of [`tile_in_blocks`].
#[inline(always)]
unsafe fn transpose_block<T: Bits, const ORDER: u8, const B: usize>(
    dst: *mut u8,
    pitch: usize,
    src: *const u8,
    stride: isize,
) {
    // SAFETY: as the caller promises.
    unsafe {
        let line = |index: usize| src.offset(index as isize * stride).cast::<[T; B]>();
        let lines: [[T; B]; B] = array::from_fn(|index| line(index).read_unaligned());
        let rows: [[T; B]; B] =
            array::from_fn(|row| array::from_fn(|col| lines[col][row].with_order::<ORDER>()));
        for (row, elements) in rows.into_iter().enumerate() {
            dst.add(row * pitch).cast::<[T; B]>().write_unaligned(elements);
        }
    }
}
