//! Copies of strided arrays into contiguous C order.
//!
//! Adjacent axes are merged, and contiguous runs are copied as a whole. If elements are closer along another
//! axis than along the last, as in a transposed array, the source is read in tiles, so that every cache
//! line is used as a whole.

#[cfg(target_arch = "x86_64")]
mod avx2;
pub(super) mod band;
#[cfg(target_arch = "x86_64")]
mod pixels;
#[cfg(test)]
mod tests;
mod transpose;

#[cfg(target_arch = "x86_64")]
use self::pixels::Pixels;
use self::transpose::transpose;
use super::cache::{STREAM_MIN, finish_stream};
use super::layout;
use super::parallel::{self, Threads};
#[cfg(target_arch = "x86_64")]
use super::processor::has_avx2;
use super::walk::{Plane, Pointers, StridedArray, Walk};

/// The elements per side of a tile whose source is not contiguous. The tile fits in the L1 cache.
const fn tile_side(itemsize: usize) -> usize {
    match itemsize {
        1 => 64,
        2..=4 => 32,
        _ => 16,
    }
}

/// Runs with fewer bytes are copied element by element, since a call would cost more.
const MIN_RUN: usize = 32;

/// Copies the elements of `src` to `dst` in C order and the machine's byte order. Strides may be negative, zero, and
/// need not be multiples of the item's size. Rank 0 is one element. A large array is split over threads.
///
/// # Safety
///
/// Every element of `src` is readable, within `layout::extent`, and nobody writes to it during the call.
/// `dst` has room for the elements and does not overlap them. `shape` and `strides` have the same length.
/// The pointers need not be aligned.
pub unsafe fn gather(dst: *mut u8, src: StridedArray<'_>, threads: Threads) {
    let items = ItemBytes::of(&src);
    debug_assert_eq!(src.shape.len(), src.strides.len());
    debug_assert!(layout::extent(src.shape, src.strides, items.size).is_some());
    // SAFETY: as the caller promises.
    unsafe { gather_walk(dst, src, Walk::new(src.shape, src.strides, items.size), threads) };
}

/// Does what [`gather`] does, for a target in which the elements along each axis are `steps` elements apart.
///
/// # Safety
///
/// The conditions of [`gather`]. There are as many steps as axes, and no two elements have the same place in the target.
pub unsafe fn gather_into(dst: *mut u8, steps: &[usize], src: StridedArray<'_>, threads: Threads) {
    debug_assert_eq!(src.shape.len(), steps.len());
    let walk = Walk::to(src.shape, src.strides, steps, src.dtype.size());
    // SAFETY: as the caller promises.
    unsafe { gather_walk(dst, src, walk, threads) };
}

/// # Safety
///
/// The conditions of [`gather`], for the target of the walk.
#[inline]
unsafe fn gather_walk(dst: *mut u8, src: StridedArray<'_>, walk: Option<Walk>, threads: Threads) {
    let Some(walk) = walk else { return };
    let items = ItemBytes::of(&src);
    let bytes = walk.len().saturating_mul(2 * items.size);
    let (index, axis) = walk.split_axis(threads.count(bytes));
    let pointers = Pointers { dst, src: src.data };
    let stream = bytes / 2 >= STREAM_MIN;
    parallel::run(threads, axis.len, bytes, |range| {
        let (walk, src, dst) = walk.part(index, range);
        // SAFETY: the parts of a walk stay inside both arrays, and do not overlap in the target.
        unsafe { copy_walk(pointers.at(dst * items.size, src), &walk, items, stream) };
    });
}

/// The elements that are copied.
#[derive(Clone, Copy)]
pub(super) struct ItemBytes {
    pub size: usize,
    /// The number of bytes that are reversed together; 1 if all stay where they are.
    pub unit: usize,
}

impl ItemBytes {
    pub fn of(array: &StridedArray<'_>) -> ItemBytes {
        let unit = if array.swapped { array.dtype.part_size() } else { 1 };
        ItemBytes { size: array.dtype.size(), unit }
    }
}

/// The bytes of an element are copied as they are.
const AS_IS: u8 = 0;
/// The bytes of an element are reversed.
const REVERSED: u8 = 1;
/// The bytes of each half of an element are reversed.
const HALVES_REVERSED: u8 = 2;

/// The byte of an element that a byte comes from if every `unit` bytes are reversed.
#[cfg(target_arch = "x86_64")]
const fn reversed(byte: usize, unit: usize) -> usize {
    byte / unit * unit + unit - 1 - byte % unit
}

/// Copies a part of an array. With `stream`, whole cache lines of the target may bypass the caches.
///
/// # Safety
///
/// The conditions of [`gather`].
unsafe fn copy_walk(start: Pointers, walk: &Walk, items: ItemBytes, stream: bool) {
    let planes = walk.planes();
    // SAFETY: the offsets of a walk stay inside both arrays.
    let at = |from, to: usize| unsafe { start.at(to * items.size, from) };
    #[cfg(target_arch = "x86_64")]
    if let Some(pixels) = Pixels::of(&planes.plane, items) {
        // SAFETY: the planes of a walk are inside both arrays.
        planes.each(|from, to| unsafe { pixels.copy(at(from, to)) });
        return;
    }
    let copy = plane_copy(items);
    planes.each(|from, to| {
        let Pointers { dst, src } = at(from, to);
        // SAFETY: the planes of a walk are inside both arrays, which do not overlap.
        unsafe { copy(dst, src, &planes.plane, stream) };
    });
    if stream {
        finish_stream();
    }
}

/// Copies a plane, whose rows are `rows.dst` elements apart in the target.
///
/// # Safety
///
/// The conditions of [`gather`].
#[cfg(feature = "casts")]
pub(super) unsafe fn copy_plane(start: Pointers, plane: &Plane, items: ItemBytes) {
    // SAFETY: as the caller promises.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if let Some(pixels) = Pixels::of(plane, items) {
            pixels.copy(start);
            return;
        }
        plane_copy(items)(start.dst, start.src, plane, false);
    }
}

/// The copy of one plane that is no array of pixels. With `true`, whole cache lines of the target may bypass the
/// caches.
type PlaneCopy = unsafe fn(*mut u8, *const u8, &Plane, bool);

fn plane_copy(items: ItemBytes) -> PlaneCopy {
    match (items.size, items.unit) {
        (1, _) => copy_ints::<u8, AS_IS, 16>,
        (2, 1) => copy_ints::<u16, AS_IS, 8>,
        (2, _) => copy_ints::<u16, REVERSED, 8>,
        (4, 1) => copy_ints::<u32, AS_IS, 4>,
        (4, _) => copy_ints::<u32, REVERSED, 4>,
        (8, 1) => copy_ints::<u64, AS_IS, 2>,
        (8, 8) => copy_ints::<u64, REVERSED, 2>,
        (8, _) => copy_ints::<u64, HALVES_REVERSED, 2>,
        (_, 1) => copy_ints::<u128, AS_IS, 1>,
        // The only elements of 16 bytes are complex numbers.
        _ => copy_ints::<u128, HALVES_REVERSED, 1>,
    }
}

/// An unsigned integer with the size of an element.
trait Bits: Copy {
    /// The integer with its bytes in this order.
    fn with_order<const ORDER: u8>(self) -> Self;
}

macro_rules! impl_bits {
    ($($int:ty)*) => {$(
        impl Bits for $int {
            #[inline(always)]
            fn with_order<const ORDER: u8>(self) -> Self {
                match ORDER {
                    AS_IS => self,
                    REVERSED => self.swap_bytes(),
                    _ => self.swap_bytes().rotate_left(<$int>::BITS / 2),
                }
            }
        }
    )*};
}

impl_bits! { u8 u16 u32 u64 u128 }

/// Copies a plane of items with the size of an integer.
///
/// # Safety
///
/// The conditions of [`gather`], with items of the size of `T`.
unsafe fn copy_ints<T: Bits, const ORDER: u8, const B: usize>(
    dst: *mut u8,
    src: *const u8,
    plane: &Plane,
    stream: bool,
) {
    let itemsize = size_of::<T>();
    if !plane.tiled {
        // SAFETY: the plane's elements are inside both arrays, which do not overlap.
        unsafe { copy_rows::<T, ORDER>(dst, src, plane) };
        return;
    }
    if plane.rows.src == itemsize as isize {
        // SAFETY: as the caller promises.
        unsafe { transpose::<T, ORDER, B>(dst, src, plane, stream) };
        return;
    }
    let side = tile_side(itemsize);
    plane.tiles((side, side), |tile, at| {
        // SAFETY: the tiles of a plane lie inside it.
        unsafe { copy_rows::<T, ORDER>(dst.add(at.dst * itemsize), src.offset(at.src), tile) }
    });
}

/// Copies a plane row by row.
///
/// # Safety
///
/// The conditions of [`gather`], with items of the size of `T`.
#[inline(always)]
unsafe fn copy_rows<T: Bits, const ORDER: u8>(dst: *mut u8, src: *const u8, plane: &Plane) {
    let itemsize = size_of::<T>();
    let Plane { rows, cols, .. } = *plane;
    #[cfg(target_arch = "x86_64")]
    if ORDER != AS_IS && cols.src == itemsize as isize && has_avx2() {
        // SAFETY: as the caller promises, on a processor with these instructions.
        unsafe { avx2::copy_contiguous_rows::<T, ORDER>(dst, src, plane) };
        return;
    }
    let run = cols.len * itemsize;
    let contiguous = ORDER == AS_IS && cols.src == itemsize as isize && run >= MIN_RUN;
    for row in 0..rows.len {
        // SAFETY: the row is inside both arrays, which do not overlap. No alignment is assumed.
        unsafe {
            let src = src.offset(row as isize * rows.src);
            let dst = dst.add(row * rows.dst * itemsize);
            if contiguous {
                dst.copy_from_nonoverlapping(src, run);
                continue;
            }
            for col in 0..cols.len {
                let item = src.offset(col as isize * cols.src).cast::<T>().read_unaligned();
                dst.cast::<T>().add(col).write_unaligned(item.with_order::<ORDER>());
            }
        }
    }
}
