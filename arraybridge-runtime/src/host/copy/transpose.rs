//! Copies of planes whose source is contiguous along the rows, in tiles.
//!
//! In the source, the lines of a tile are often a power of two apart, so that they evict each other from the
//! cache. So each is read once, as a whole, and blocks of elements are transposed in registers into a local
//! copy of the tile, whose rows are then written as a whole.

use std::array;
use std::mem::MaybeUninit;

use super::{AS_IS, Bits, copy_rows};
use crate::host::cache::{self, LINE, prefetch};
use crate::host::walk::Plane;

/// The elements per side of a tile. A side has several cache lines, and the tile fits in half of the L1 cache.
const fn tile_side(itemsize: usize) -> usize {
    match itemsize {
        1 => 128,
        2..=4 => 64,
        5..=8 => 32,
        _ => 16,
    }
}

const TILE_BYTES: usize = 16 << 10;

/// A local copy of a tile.
#[repr(align(64))]
struct Local(MaybeUninit<[u8; TILE_BYTES]>);

/// Copies a plane whose source is contiguous along the rows, through blocks of `B` by `B` elements. With
/// `stream`, whole cache lines of the target bypass the caches.
///
/// # Safety
///
/// As for [`gather`](super::gather), with items of the size of `T`.
pub(super) unsafe fn transpose<T: Bits, const ORDER: u8, const B: usize>(
    dst: *mut u8,
    src: *const u8,
    plane: &Plane,
    stream: bool,
) {
    let itemsize = size_of::<T>();
    let side = const { tile_side(size_of::<T>()) };
    plane.tiles((side, side), |tile, from, to| {
        // SAFETY: the tiles of a plane lie inside it.
        unsafe {
            let (dst, src) = (dst.add(to * itemsize), src.offset(from));
            // Less than a cache line per side is not worth a local copy.
            if tile.rows.len.min(tile.cols.len) * itemsize < LINE {
                copy_rows::<T, ORDER>(dst, src, tile);
            } else {
                transpose_tile::<T, ORDER, B>(dst, src, tile, stream);
            }
        }
    });
}

/// Copies a tile of at most `tile_side` rows and columns.
///
/// # Safety
///
/// As for [`transpose`].
unsafe fn transpose_tile<T: Bits, const ORDER: u8, const B: usize>(
    dst: *mut u8,
    src: *const u8,
    tile: &Plane,
    stream: bool,
) {
    let side = const { tile_side(size_of::<T>()) };
    const { assert!(tile_side(size_of::<T>()).pow(2) * size_of::<T>() <= TILE_BYTES) };
    let (rows, cols) = (tile.rows.len, tile.cols.len);
    let in_blocks = (rows - rows % B, cols - cols % B);
    let mut local = Local(MaybeUninit::uninit());
    // A target of close rows stays in the cache itself.
    let is_close = tile.rows.dst <= side;
    let (target, pitch) = match is_close {
        true => (dst.cast::<T>(), tile.rows.dst),
        false => (local.0.as_mut_ptr().cast::<T>(), side),
    };
    // SAFETY: the tile has this many rows and columns inside both arrays, and the local copy has room for
    // them.
    unsafe {
        let column = |col: usize| src.offset(col as isize * tile.cols.src).cast::<T>();
        for col in (0..in_blocks.1).step_by(B) {
            for next in col + side..col + side + B {
                // Processors foresee reads of one line after the other, not those of a tile.
                let next = src.wrapping_offset(next as isize * tile.cols.src);
                prefetch(next, rows * size_of::<T>());
            }
            for row in (0..in_blocks.0).step_by(B) {
                let block = target.add(row * pitch + col);
                transpose_block::<T, ORDER, B>(block, pitch, column(col).add(row), tile.cols.src);
            }
        }
        for col in 0..cols {
            let first = if col < in_blocks.1 { in_blocks.0 } else { 0 };
            for row in first..rows {
                let item = column(col).add(row).read_unaligned();
                target.add(row * pitch + col).write_unaligned(item.with_order::<ORDER>());
            }
        }
        if is_close {
            return;
        }
        let bytes = cols * size_of::<T>();
        for row in 0..rows {
            let from = target.add(row * pitch).cast::<u8>();
            let to = dst.add(row * tile.rows.dst * size_of::<T>());
            if stream && bytes.is_multiple_of(LINE) && to.addr().is_multiple_of(LINE) {
                cache::stream(to, from, bytes);
            } else {
                to.copy_from_nonoverlapping(from, bytes);
            }
        }
    }
}

/// Transposes `B` by `B` elements. The lines of the source are `stride` bytes apart, those of the target
/// `pitch` elements.
///
/// # Safety
///
/// Source and target have the elements, and do not overlap. They need not be aligned.
#[inline(always)]
unsafe fn transpose_block<T: Bits, const ORDER: u8, const B: usize>(
    dst: *mut T,
    pitch: usize,
    src: *const T,
    stride: isize,
) {
    // SAFETY: as the caller promises.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if const { size_of::<T>() == 4 && ORDER == AS_IS && B == 4 } {
            return transpose_words(dst.cast(), pitch, src.cast(), stride);
        }
        let line = |index: usize| src.cast::<u8>().offset(index as isize * stride).cast::<[T; B]>();
        let lines: [[T; B]; B] = array::from_fn(|index| line(index).read_unaligned());
        let rows: [[T; B]; B] =
            array::from_fn(|row| array::from_fn(|col| lines[col][row].with_order::<ORDER>()));
        for (row, elements) in rows.into_iter().enumerate() {
            dst.add(row * pitch).cast::<[T; B]>().write_unaligned(elements);
        }
    }
}

/// As [`transpose_block`] for four by four elements of four bytes, which compilers do not make vector code of.
///
/// # Safety
///
/// As for [`transpose_block`].
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn transpose_words(dst: *mut u32, pitch: usize, src: *const u32, stride: isize) {
    use std::arch::x86_64::{
        __m128i, _mm_loadu_si128, _mm_storeu_si128, _mm_unpackhi_epi32, _mm_unpackhi_epi64,
        _mm_unpacklo_epi32, _mm_unpacklo_epi64,
    };
    // SAFETY: as the caller promises.
    unsafe {
        let line = |index: isize| src.cast::<u8>().offset(index * stride).cast::<__m128i>();
        let [a, b, c, d] = [0, 1, 2, 3].map(|index| _mm_loadu_si128(line(index)));
        let (ab, cd) = (_mm_unpacklo_epi32(a, b), _mm_unpacklo_epi32(c, d));
        let (ab_high, cd_high) = (_mm_unpackhi_epi32(a, b), _mm_unpackhi_epi32(c, d));
        let rows = [
            _mm_unpacklo_epi64(ab, cd),
            _mm_unpackhi_epi64(ab, cd),
            _mm_unpacklo_epi64(ab_high, cd_high),
            _mm_unpackhi_epi64(ab_high, cd_high),
        ];
        for (row, elements) in rows.into_iter().enumerate() {
            _mm_storeu_si128(dst.add(row * pitch).cast(), elements);
        }
    }
}
