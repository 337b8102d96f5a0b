//! Copies of pixels of one to four channels, such as those of images: taken apart into planes, put together from planes,
//! mirrored, or with the channels in reverse order.

use super::{ItemBytes, avx2, reversed};
use crate::processor::has_avx2;
use crate::walk::{Axis, Plane, Pointers};

/// The bytes of a vector. A block of pixels has one for each channel.
pub(super) const VECTOR: usize = 16;
/// The most channels.
pub(super) const MAX_CHANNELS: usize = 4;
/// The least number of pixels. With fewer, the preparations take longer than a simple loop. Each
/// array has at least two blocks.
const MIN_PIXELS: usize = 64;

/// The vectors of one block after the other.
#[derive(Clone, Copy)]
pub(super) struct Vectors {
    /// True if the channels of a pixel are next to each other; false if the pixels of a channel
    /// are.
    interleaved: bool,
    /// The bytes from one vector of a block to the next.
    pub step: isize,
    /// The bytes from one block to the next.
    pub block: isize,
}

impl Vectors {
    /// The vectors of an array whose pixels and channels are this many bytes apart. None if there
    /// are gaps between them.
    fn of(pixel: isize, channel: isize, channels: usize, itemsize: usize) -> Option<Vectors> {
        let (size, channels) = (itemsize as isize, channels as isize);
        let vector = VECTOR as isize;
        if pixel.abs() == size {
            Some(Vectors { interleaved: false, step: channel, block: vector * pixel.signum() })
        } else if pixel.abs() == size * channels && channel.abs() == size {
            let block = vector * channels * pixel.signum();
            Some(Vectors { interleaved: true, step: vector, block })
        } else {
            None
        }
    }
}

/// The copy of planes of one shape that are arrays of pixels, or that have several, one after the other.
pub(super) struct Pixels {
    items: ItemBytes,
    pixels: Axis,
    channels: Axis,
    arrays: Axis,
    pub from: Vectors,
    pub to: Vectors,
    /// The place of each byte of a block of the target in the block of the source.
    pub places: [u8; MAX_CHANNELS * VECTOR],
}

impl Pixels {
    /// None if the plane is no array of pixels, or if the order of the elements is the same in source and target.
    #[inline(always)]
    pub fn of(plane: &Plane, items: ItemBytes) -> Option<Pixels> {
        let Plane { rows, cols, .. } = plane;
        let few = rows.len.min(cols.len);
        let has_channels = few > 1 && few <= MAX_CHANNELS;
        if rows.len.max(cols.len) < MIN_PIXELS
            || !(has_channels || cols.src == -(items.size as isize))
        {
            return None;
        }
        Pixels::found(plane, items)
    }

    // Inlined, its frame would be a cost of every copy.
    #[inline(never)]
    fn found(plane: &Plane, items: ItemBytes) -> Option<Pixels> {
        const ONE: Axis = Axis { len: 1, src: 0, dst: 0 };
        let Plane { rows, cols, .. } = *plane;
        Pixels::new(cols, rows, ONE, items)
            .or_else(|| Pixels::new(rows, cols, ONE, items))
            .or_else(|| Pixels::new(cols, ONE, rows, items))
    }

    fn new(pixels: Axis, channels: Axis, arrays: Axis, items: ItemBytes) -> Option<Pixels> {
        let itemsize = items.size;
        let fits = channels.len <= MAX_CHANNELS && pixels.len >= MIN_PIXELS;
        if !fits || !matches!(itemsize, 1 | 2 | 4 | 8) || !has_avx2() {
            return None;
        }
        let from = Vectors::of(pixels.src, channels.src, channels.len, itemsize)?;
        let apart = |axis: Axis| (axis.dst * itemsize) as isize;
        let to = Vectors::of(apart(pixels), apart(channels), channels.len, itemsize)?;
        let places = [0; MAX_CHANNELS * VECTOR];
        let mut copy = Pixels { items, pixels, channels, arrays, from, to, places };
        if from.interleaved == to.interleaved && !copy.is_mirrored() && !copy.is_reversed() {
            return None;
        }
        copy.find_places();
        Some(copy)
    }

    /// Returns whether the source has the pixels in reverse order.
    fn is_mirrored(&self) -> bool {
        self.pixels.src < 0
    }

    /// Returns whether the blocks of the source have the channels in reverse order.
    fn is_reversed(&self) -> bool {
        self.from.interleaved && self.channels.src < 0
    }

    /// The pixels of a block.
    fn per_block(&self) -> usize {
        VECTOR / self.items.size
    }

    /// The place of an element in a block of vectors, in bytes.
    fn place(&self, vectors: Vectors, pixel: usize, channel: usize) -> usize {
        match vectors.interleaved {
            true => (pixel * self.channels.len + channel) * self.items.size,
            false => channel * VECTOR + pixel * self.items.size,
        }
    }

    fn find_places(&mut self) {
        let (channels, pixels) = (self.channels.len, self.per_block());
        let (mirrored, backward) = (self.is_mirrored(), self.is_reversed());
        for channel in 0..channels {
            for pixel in 0..pixels {
                let to = self.place(self.to, pixel, channel);
                let channel = if backward { channels - 1 - channel } else { channel };
                let pixel = if mirrored { pixels - 1 - pixel } else { pixel };
                let from = self.place(self.from, pixel, channel);
                for byte in 0..self.items.size {
                    self.places[to + byte] = (from + reversed(byte, self.items.unit)) as u8;
                }
            }
        }
    }

    /// Copies a plane of the shape that this was made for.
    ///
    /// # Safety
    ///
    /// The conditions of [`gather`](super::gather).
    #[inline(never)]
    pub unsafe fn copy(&self, start: Pointers) {
        let pairs = self.pixels.len / (2 * self.per_block());
        let last = self.pixels.len - 2 * self.per_block();
        for array in 0..self.arrays.len {
            // SAFETY: the array is inside those of the caller.
            unsafe {
                let to = array * self.arrays.dst * self.items.size;
                let first = start.at(to, array as isize * self.arrays.src);
                self.copy_pairs(first, 0, pairs);
                // Some of its pixels may have been copied already.
                self.copy_pairs(first, last, 1);
            }
        }
    }

    /// Copies pairs of blocks, from a pixel on.
    ///
    /// # Safety
    ///
    /// The conditions of [`copy`](Self::copy), with the array's first pixel. It has all pixels of
    /// the blocks.
    unsafe fn copy_pairs(&self, array: Pointers, start: usize, pairs: usize) {
        let Pixels { pixels, channels, .. } = *self;
        // Of a block in reverse order, the last element comes first.
        let mut first = start as isize * pixels.src;
        if self.is_mirrored() {
            first += (self.per_block() as isize - 1) * pixels.src;
        }
        if self.is_reversed() {
            first += (channels.len as isize - 1) * channels.src;
        }
        // SAFETY: the blocks have whole pixels, and there are no gaps between their elements. The processor has AVX2.
        unsafe {
            let blocks = array.at(start * pixels.dst * self.items.size, first);
            let shuffle = match channels.len {
                1 => avx2::shuffle::<1>,
                2 => avx2::shuffle::<2>,
                3 => avx2::shuffle::<3>,
                _ => avx2::shuffle::<4>,
            };
            shuffle(blocks, self, pairs);
        }
    }
}
