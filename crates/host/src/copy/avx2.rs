//! Loops in vectors of 32 bytes.

use std::arch::x86_64::*;
use std::array;

use super::pixels::{Pixels, VECTOR};
use super::transpose::tile_in_blocks;
use super::{AS_IS, Bits, REVERSED, reversed};
use crate::walk::{Plane, Pointers};

/// Copies rows that are contiguous in the source. Compilers make vector code of this loop.
///
/// # Safety
///
/// The conditions of [`copy_rows`](super::copy_rows), on a processor with AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn copy_contiguous_rows<T: Bits, const ORDER: u8>(
    dst: *mut u8,
    src: *const u8,
    plane: &Plane,
) {
    let Plane { rows, cols, .. } = *plane;
    for row in 0..rows.len {
        // SAFETY: the row is inside both arrays, which do not overlap. No alignment is assumed.
        unsafe {
            let src = src.offset(row as isize * rows.src).cast::<T>();
            let dst = dst.cast::<T>().add(row * rows.dst);
            for col in 0..cols.len {
                dst.add(col).write_unaligned(src.add(col).read_unaligned().with_order::<ORDER>());
            }
        }
    }
}

/// Copies a tile.
///
/// # Safety
///
/// The conditions of [`tile_in_blocks`], on a processor with AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn transpose_tile<T: Bits, const ORDER: u8, const B: usize>(
    dst: *mut u8,
    pitch: usize,
    src: *const u8,
    tile: &Plane,
) {
    // SAFETY: as the caller promises.
    unsafe { tile_in_blocks::<T, ORDER, B, true>(dst, pitch, src, tile) };
}

/// Transposes `2 * B` lines of `B` elements, which are 16 bytes.
///
/// The lower halves of `B` vectors hold the first `B` lines, the upper halves the others. Interleaving the first half
/// of the rows of a matrix with the second half, as often as their number can be halved, transposes it.
///
/// # Safety
///
/// The conditions of [`transpose_tile`].
#[target_feature(enable = "avx2")]
#[inline]
pub(super) unsafe fn transpose_block<T: Bits, const ORDER: u8, const B: usize>(
    dst: *mut u8,
    pitch: usize,
    src: *const u8,
    stride: isize,
) {
    const { assert!(B * size_of::<T>() == 16) };
    // SAFETY: the block has this many lines in the source, and rows in the target. No alignment is assumed.
    unsafe {
        let line = |index: usize| src.offset(index as isize * stride).cast::<__m128i>();
        let mut vectors = [_mm256_setzero_si256(); B];
        for (index, vector) in vectors.iter_mut().enumerate() {
            let low = _mm256_castsi128_si256(_mm_loadu_si128(line(index)));
            *vector = _mm256_inserti128_si256::<1>(low, _mm_loadu_si128(line(index + B)));
        }
        for _ in 0..B.ilog2() {
            let before = vectors;
            for index in 0..B / 2 {
                let (a, b) = (before[index], before[index + B / 2]);
                (vectors[2 * index], vectors[2 * index + 1]) = match size_of::<T>() {
                    1 => (_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b)),
                    2 => (_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)),
                    4 => (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b)),
                    _ => (_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b)),
                };
            }
        }
        for (row, mut vector) in vectors.into_iter().enumerate() {
            if ORDER != AS_IS {
                vector = _mm256_shuffle_epi8(vector, order::<T, ORDER>());
            }
            _mm256_storeu_si256(dst.add(row * pitch).cast(), vector);
        }
    }
}

/// The place from which each byte of a vector comes, in its half of the vector.
#[target_feature(enable = "avx2")]
#[inline]
fn order<T: Bits, const ORDER: u8>() -> __m256i {
    let unit = if ORDER == REVERSED { size_of::<T>() } else { size_of::<T>().div_ceil(2) };
    let bytes: [u8; 32] = array::from_fn(|at| reversed(at % 16, unit) as u8);
    // SAFETY: the array has 32 bytes.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

/// Copies pairs of blocks of `N` vectors.
///
/// # Safety
///
/// Source and target have the blocks, and do not overlap. The processor has AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn shuffle<const N: usize>(start: Pointers, pixels: &Pixels, pairs: usize) {
    let (from, to) = (pixels.from, pixels.to);
    // What each vector of the target takes of each vector of the source: nothing where the highest bit is set.
    let mut taken = [[_mm256_setzero_si256(); N]; N];
    for (places, taken) in pixels.places.chunks_exact(VECTOR).zip(&mut taken) {
        // SAFETY: the chunk has the size of a vector.
        let places =
            unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(places.as_ptr().cast())) };
        for (index, taken) in taken.iter_mut().enumerate() {
            let inside = _mm256_sub_epi8(places, _mm256_set1_epi8((index * VECTOR) as i8));
            // Places from 16 on and below 0 get the highest bit. The next three bits are ignored.
            *taken = _mm256_adds_epu8(inside, _mm256_set1_epi8(0x70));
        }
    }
    for pair in 0..pairs as isize {
        // SAFETY: the two blocks are inside both arrays. No alignment is assumed.
        unsafe {
            let dst = start.dst.offset(2 * pair * to.block);
            let src = start.src.offset(2 * pair * from.block);
            let mut vectors = [_mm256_setzero_si256(); N];
            for (index, vector) in vectors.iter_mut().enumerate() {
                let at = src.offset(index as isize * from.step);
                let low = _mm256_castsi128_si256(_mm_loadu_si128(at.cast()));
                let high = _mm_loadu_si128(at.offset(from.block).cast());
                *vector = _mm256_inserti128_si256::<1>(low, high);
            }
            for (index, taken) in taken.iter().enumerate() {
                let mut elements = _mm256_setzero_si256();
                for (vector, taken) in vectors.iter().zip(taken) {
                    elements = _mm256_or_si256(elements, _mm256_shuffle_epi8(*vector, *taken));
                }
                let at = dst.offset(index as isize * to.step);
                let (low, high) = (at.cast(), at.offset(to.block).cast());
                _mm_storeu_si128(low, _mm256_castsi256_si128(elements));
                _mm_storeu_si128(high, _mm256_extracti128_si256::<1>(elements));
            }
        }
    }
}
