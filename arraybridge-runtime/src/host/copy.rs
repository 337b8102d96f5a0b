//! Copies a strided array into contiguous C order.
//!
//! Axes that follow one another are merged, contiguous runs are copied as such, and an array that
//! is nearer along another axis than its last (a transposed one) is read in tiles, so that every
//! cache line is used whole.

use std::mem::MaybeUninit;

use super::walk::{Plane, Walk};
use super::{layout, parallel};

/// Elements per side of a tile: a source row of at least one cache line, a tile that fits in L1.
const fn tile_side(itemsize: usize) -> usize {
    match itemsize {
        1 => 64,
        2..=4 => 32,
        _ => 16,
    }
}

/// Below this many bytes a run is copied element by element, as a call costs more.
const MIN_RUN: usize = 32;

/// Copies the elements of `src` in C order to `dst`. Strides are in bytes and may be negative, zero
/// and no multiple of the item's size; rank 0 is one element. With `swap` each unit of that many
/// bytes is reversed: the item's size for a byte-swapped array, half of it for a complex one.
/// A large array is split over at most `threads` threads.
///
/// # Safety
///
/// Every element of `src` is readable, as [`layout::extent`] says, and is not written meanwhile;
/// `dst` has room for the elements and does not overlap them; `shape` and `strides` have the same
/// length, and `swap` divides the item's size. Neither pointer needs to be aligned.
pub unsafe fn gather(
    dst: *mut u8,
    src: *const u8,
    shape: &[usize],
    strides: &[isize],
    itemsize: usize,
    swap: Option<usize>,
    threads: usize,
) {
    debug_assert_eq!(shape.len(), strides.len());
    debug_assert!(layout::extent(shape, strides, itemsize).is_some());
    let Some(walk) = Walk::new(shape, strides, itemsize) else { return };
    if itemsize == 0 {
        return;
    }
    let threads = parallel::worth(threads, walk.len().saturating_mul(itemsize));
    let (index, axis) = walk.split_axis(threads);
    let pointers = Pointers { dst, src };
    parallel::split(axis.len, threads, 1, |range| {
        let (walk, src, dst) = walk.part(index, range);
        let Pointers { dst: target, src: source } = pointers.get();
        // SAFETY: the parts of the walk are apart in the target, and each stays inside both arrays.
        unsafe { copy_walk(target.add(dst * itemsize), source.offset(src), &walk, itemsize, swap) }
    });
}

/// Two pointers that threads may share: they write to parts that are apart.
#[derive(Clone, Copy)]
pub(super) struct Pointers {
    pub dst: *mut u8,
    pub src: *const u8,
}

// SAFETY: the threads read memory that nobody writes, and write to parts that are apart.
unsafe impl Send for Pointers {}
// SAFETY: as for `Send`.
unsafe impl Sync for Pointers {}

impl Pointers {
    /// A method, so that a closure captures the pair and not a bare pointer.
    pub fn get(&self) -> Pointers {
        *self
    }
}

/// How the bytes of an element are turned.
const AS_IS: u8 = 0;
const WHOLE: u8 = 1;
const HALVES: u8 = 2;

/// The copy of one plane.
type PlaneCopy = unsafe fn(*mut u8, *const u8, &Plane);

/// # Safety
///
/// As for [`gather`].
unsafe fn copy_walk(
    dst: *mut u8,
    src: *const u8,
    walk: &Walk,
    itemsize: usize,
    swap: Option<usize>,
) {
    walk.planes(|plane, from, to| {
        // SAFETY: the offsets of a walk stay inside both arrays.
        unsafe { copy_plane(dst.add(to * itemsize), src.offset(from), plane, itemsize, swap) }
    });
}

/// Copies one plane, whose rows are `rows.dst` elements apart in the target.
///
/// # Safety
///
/// As for [`gather`].
pub(super) unsafe fn copy_plane(
    dst: *mut u8,
    src: *const u8,
    plane: &Plane,
    itemsize: usize,
    swap: Option<usize>,
) {
    // SAFETY: the caller's promise, and the function fits the size of the item.
    unsafe {
        match plane_copy(itemsize, swap) {
            Some(copy) => copy(dst, src, plane),
            None => copy_items(dst, src, plane, itemsize, swap.unwrap_or(1)),
        }
    }
}

/// The copy for an item that is an integer's size; `None` for the others.
fn plane_copy(itemsize: usize, swap: Option<usize>) -> Option<PlaneCopy> {
    let turn = match swap {
        None | Some(0 | 1) => AS_IS,
        Some(unit) if unit == itemsize => WHOLE,
        Some(unit) if unit * 2 == itemsize => HALVES,
        Some(_) => return None,
    };
    Some(match (itemsize, turn) {
        (1, _) => copy_lanes::<u8, AS_IS>,
        (2, AS_IS) => copy_lanes::<u16, AS_IS>,
        (2, WHOLE) => copy_lanes::<u16, WHOLE>,
        (4, AS_IS) => copy_lanes::<u32, AS_IS>,
        (4, WHOLE) => copy_lanes::<u32, WHOLE>,
        (4, _) => copy_lanes::<u32, HALVES>,
        (8, AS_IS) => copy_lanes::<u64, AS_IS>,
        (8, WHOLE) => copy_lanes::<u64, WHOLE>,
        (8, _) => copy_lanes::<u64, HALVES>,
        (16, AS_IS) => copy_lanes::<u128, AS_IS>,
        (16, WHOLE) => copy_lanes::<u128, WHOLE>,
        (16, _) => copy_lanes::<u128, HALVES>,
        _ => return None,
    })
}

/// An element as bits.
trait Lane: Copy {
    /// The bits with their bytes turned.
    fn turned<const TURN: u8>(self) -> Self;
}

macro_rules! lanes {
    ($($lane:ty)*) => {$(
        impl Lane for $lane {
            #[inline(always)]
            fn turned<const TURN: u8>(self) -> Self {
                match TURN {
                    AS_IS => self,
                    WHOLE => self.swap_bytes(),
                    _ => self.swap_bytes().rotate_left(<$lane>::BITS / 2),
                }
            }
        }
    )*};
}

lanes! { u8 u16 u32 u64 u128 }

/// # Safety
///
/// As for [`gather`], with items of the lane's size.
unsafe fn copy_lanes<T: Lane, const TURN: u8>(dst: *mut u8, src: *const u8, plane: &Plane) {
    let itemsize = size_of::<T>();
    if !plane.tiled {
        // SAFETY: the caller's promise.
        unsafe { copy_rows::<T, TURN>(dst, src, plane) };
        return;
    }
    let side = tile_side(itemsize);
    plane.tiles((side, side), 0, 0, |tile, from, to| {
        // SAFETY: the tiles of a plane lie inside it.
        unsafe {
            let (dst, src) = (dst.add(to * itemsize), src.offset(from));
            if tile.rows.src == itemsize as isize && (tile.rows.len, tile.cols.len) == (side, side)
            {
                transpose_tile::<T, TURN>(dst, src, tile);
            } else {
                copy_rows::<T, TURN>(dst, src, tile);
            }
        }
    });
}

/// # Safety
///
/// As for [`gather`], with items of the lane's size.
#[inline(always)]
unsafe fn copy_rows<T: Lane, const TURN: u8>(dst: *mut u8, src: *const u8, plane: &Plane) {
    let itemsize = size_of::<T>();
    let Plane { rows, cols, .. } = *plane;
    let run = cols.len * itemsize;
    let contiguous = TURN == AS_IS && cols.src == itemsize as isize && run >= MIN_RUN;
    for row in 0..rows.len {
        // SAFETY: the row lies inside both arrays, which do not overlap; no alignment is assumed.
        unsafe {
            let src = src.offset(row as isize * rows.src);
            let dst = dst.add(row * rows.dst * itemsize);
            if contiguous {
                dst.copy_from_nonoverlapping(src, run);
                continue;
            }
            for col in 0..cols.len {
                let item = src.offset(col as isize * cols.src).cast::<T>().read_unaligned();
                dst.cast::<T>().add(col).write_unaligned(item.turned::<TURN>());
            }
        }
    }
}

const TILE_BYTES: usize = 4096;

const fn side_bytes(itemsize: usize) -> usize {
    tile_side(itemsize) * tile_side(itemsize) * itemsize
}

#[repr(align(64))]
struct Local(MaybeUninit<[u8; TILE_BYTES]>);

/// Copies a full tile whose source is contiguous along the rows, through a local copy of it: in the
/// source its lines are often a power of two apart and would evict one another.
///
/// # Safety
///
/// As for [`gather`], with items of the lane's size.
unsafe fn transpose_tile<T: Lane, const TURN: u8>(dst: *mut u8, src: *const u8, tile: &Plane) {
    let side = const { tile_side(size_of::<T>()) };
    const { assert!(side_bytes(size_of::<T>()) <= TILE_BYTES) };
    let mut local = Local(MaybeUninit::uninit());
    // SAFETY: the tile has `side` rows and columns inside both arrays, and the local copy holds it.
    unsafe {
        let local = local.0.as_mut_ptr().cast::<T>();
        for col in 0..side {
            let src = src.offset(col as isize * tile.cols.src);
            local.add(col * side).cast::<u8>().copy_from_nonoverlapping(src, side * size_of::<T>());
        }
        for row in 0..side {
            let dst = dst.cast::<T>().add(row * tile.rows.dst);
            for col in 0..side {
                let item = *local.add(col * side + row);
                dst.add(col).write_unaligned(item.turned::<TURN>());
            }
        }
    }
}

/// Items of any size, each reversed in units of `unit` bytes.
///
/// # Safety
///
/// As for [`gather`].
unsafe fn copy_items(dst: *mut u8, src: *const u8, plane: &Plane, itemsize: usize, unit: usize) {
    let Plane { rows, cols, .. } = *plane;
    for row in 0..rows.len {
        for col in 0..cols.len {
            let from = row as isize * rows.src + col as isize * cols.src;
            let to = (row * rows.dst + col) * itemsize;
            // SAFETY: the item lies inside both arrays, which do not overlap.
            let item = unsafe {
                let dst = dst.add(to);
                dst.copy_from_nonoverlapping(src.offset(from), itemsize);
                std::slice::from_raw_parts_mut(dst, itemsize)
            };
            if unit > 1 {
                item.chunks_exact_mut(unit).for_each(<[u8]>::reverse);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The copy, one element at a time by its index.
    fn naive(memory: &[u8], first: usize, view: &View) -> Vec<u8> {
        let mut out = Vec::new();
        for flat in 0..view.shape.iter().product() {
            let mut rest: usize = flat;
            let mut at = first as isize;
            for (len, stride) in view.shape.iter().zip(&view.strides).rev() {
                at += (rest % len) as isize * stride;
                rest /= len;
            }
            let mut item = memory[at as usize..][..view.itemsize].to_vec();
            if let Some(unit) = view.swap {
                item.chunks_mut(unit).for_each(<[u8]>::reverse);
            }
            out.extend(item);
        }
        out
    }

    #[derive(Clone, Debug)]
    struct View {
        shape: Vec<usize>,
        strides: Vec<isize>,
        itemsize: usize,
        swap: Option<usize>,
    }

    /// Memory for the view at a given misalignment, with the offset of its first element.
    fn memory(view: &View, misalignment: usize) -> (Vec<u8>, usize) {
        let (lowest, end) = layout::extent(&view.shape, &view.strides, view.itemsize).unwrap();
        let len = (end - lowest) as usize + misalignment;
        let bytes = (0..len).map(|i| (i as u32).wrapping_mul(0x9e37_79b1).to_be_bytes()[0]);
        (bytes.collect(), misalignment + lowest.unsigned_abs())
    }

    fn check(view: &View, misalignment: usize, threads: usize) {
        let (memory, first) = memory(view, misalignment);
        let expected = naive(&memory, first, view);
        let guard = 16;
        let mut out = vec![0xee; misalignment + expected.len() + guard];
        // SAFETY: the memory covers the view, and the target has room behind its misalignment.
        unsafe {
            let (dst, src) = (out.as_mut_ptr().add(misalignment), memory.as_ptr().add(first));
            gather(dst, src, &view.shape, &view.strides, view.itemsize, view.swap, threads);
        }
        assert!(out[misalignment..][..expected.len()] == expected, "{view:?}");
        assert!(out[misalignment + expected.len()..].iter().all(|byte| *byte == 0xee));
    }

    fn views() -> impl Strategy<Value = View> {
        let axis = (0_usize..20, -70_isize..70);
        let any = proptest::collection::vec(axis, 0..4).prop_map(|axes| axes.into_iter().unzip());
        (any, itemsizes()).prop_map(|((shape, strides), (itemsize, swap))| View {
            shape,
            strides,
            itemsize,
            swap,
        })
    }

    fn itemsizes() -> impl Strategy<Value = (usize, Option<usize>)> {
        proptest::sample::select(vec![
            (1, None),
            (1, Some(1)),
            (2, None),
            (2, Some(2)),
            (4, None),
            (4, Some(4)),
            (4, Some(2)),
            (8, None),
            (8, Some(8)),
            (8, Some(4)),
            (16, None),
            (16, Some(16)),
            (16, Some(8)),
            (3, None),
            (12, Some(4)),
            (16, Some(4)),
        ])
    }

    /// Permuted, flipped, stepped and broadcast views of a contiguous array.
    fn permuted_views() -> impl Strategy<Value = View> {
        let axis = (1_usize..70, -2_isize..3);
        let axes = proptest::collection::vec(axis, 1..4);
        let order = Just([0_usize, 1, 2, 3]).prop_shuffle();
        (axes, order, itemsizes()).prop_map(|(axes, order, (itemsize, swap))| {
            let order: Vec<usize> = order.into_iter().filter(|i| *i < axes.len()).collect();
            let mut strides = vec![0; axes.len()];
            let mut stride = itemsize as isize;
            for index in order {
                let (len, step) = axes[index];
                strides[index] = stride * step;
                stride *= len as isize * step.abs().max(1);
            }
            View { shape: axes.iter().map(|axis| axis.0).collect(), strides, itemsize, swap }
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn any_strides_are_read_in_c_order(view in views(), misalignment in 0_usize..9) {
            check(&view, misalignment, 1);
        }

        #[test]
        fn permuted_views_are_read_in_c_order(view in permuted_views(), shift in 0_usize..3) {
            check(&view, shift, 1);
        }
    }

    #[test]
    fn threads_do_not_change_the_result() {
        let side = 1500_usize;
        let layouts = [(4 * side as isize, 4), (4, 4 * side as isize), (0, -4), (-4, 0)];
        for strides in layouts {
            let strides = vec![strides.0, strides.1];
            let view = View { shape: vec![side, side], strides, itemsize: 4, swap: None };
            for threads in [0, 1, 2, 3, 64] {
                check(&view, 1, threads);
            }
        }
    }

    #[test]
    fn few_long_rows_and_many_short_ones_are_split() {
        for shape in [vec![2, 1 << 20], vec![1 << 20, 3], vec![3, 1 << 19, 2]] {
            let strides = (0..shape.len()).map(|i| [4, 16, 8][i]).collect();
            check(&View { shape, strides, itemsize: 4, swap: Some(4) }, 0, 2);
        }
    }

    #[test]
    fn sixty_four_axes_are_copied() {
        let mut view = View { shape: vec![1; 64], strides: vec![7; 64], itemsize: 2, swap: None };
        (view.shape[0], view.shape[31], view.shape[63]) = (3, 2, 4);
        check(&view, 1, 2);
        view.shape[40] = 0;
        check(&view, 1, 2);
    }
}
