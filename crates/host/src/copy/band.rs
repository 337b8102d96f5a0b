//! Rows of tiles that bypass the caches.

use std::mem::MaybeUninit;

use crate::cache::{self, LINE};
use crate::walk::TilePlace;

/// The bytes for the rows of a tile, each behind a cache line.
const BYTES: usize = 36 << 10;

/// A local copy of one tile after the other, from left to right.
///
/// Wherever the rows of the target begin, only whole cache lines of it are written, and they bypass the caches. What is
/// left of a row after its last whole line stays here, before the same row of the next tile.
#[repr(C, align(64))]
pub(crate) struct Band {
    bytes: MaybeUninit<[u8; BYTES]>,
    itemsize: usize,
    /// The bytes between two rows.
    pub pitch: usize,
}

impl Band {
    /// Returns whether there is room for tiles of this size.
    pub const fn holds(rows: usize, row_bytes: usize) -> bool {
        rows * (LINE + row_bytes) <= BYTES
    }

    /// Room for tiles with at most so many columns.
    pub fn new(cols: usize, itemsize: usize) -> Band {
        Band { bytes: MaybeUninit::uninit(), itemsize, pitch: LINE + cols * itemsize }
    }

    /// The place for a row of a tile.
    pub fn row(&mut self, row: usize) -> *mut u8 {
        self.bytes.as_mut_ptr().cast::<u8>().wrapping_add(row * self.pitch + LINE)
    }

    /// Writes a row of a tile, as far as whole cache lines go.
    ///
    /// # Safety
    ///
    /// The band holds tiles of this size, and the tile has been put here. The tiles of a row were written from left to
    /// right. The target is valid for the bytes of the row, and for those before.
    #[inline(always)]
    pub unsafe fn write(&mut self, row: usize, dst: *mut u8, tile: TilePlace) {
        let from = self.row(row);
        let (bytes, before) = (tile.cols * self.itemsize, tile.before * self.itemsize);
        // The bytes after the last whole line of the tile before, and of this one.
        let left = (dst.addr() % LINE).min(before);
        let leave =
            if tile.is_last { 0 } else { ((dst.addr() + bytes) % LINE).min(before + bytes) };
        // SAFETY: as the caller promises. The row is behind a cache line.
        unsafe {
            cache::write(dst.sub(left), from.sub(left), left + bytes - leave);
            from.sub(LINE).copy_from(from.add(bytes).sub(LINE), LINE);
        }
    }
}
