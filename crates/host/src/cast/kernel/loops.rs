//! Loops over contiguous elements, compiled twice: for AVX2, if the processor has it, and for any processor.

use std::mem::MaybeUninit;

use super::super::element::{Convert, Params};
use super::Losses;
use crate::cache::{LINE, finish_stream, prefetch, stream};

with_avx2! {
    /// Converts every element.
    ///
    /// # Safety
    ///
    /// The conditions of [`Kernel`](super::Kernel).
    pub(super) unsafe fn map<C: Convert>(
        dst: *mut u8, src: *const u8, len: usize, params: &Params
    ) -> Losses {
        map_generic::<C, true>, or map_generic::<C, { cfg!(target_arch = "aarch64") }>
    }
}

/// `FUSED` says that the processor has instructions for fused multiplications.
///
/// # Safety
///
/// The conditions of [`Kernel`](super::Kernel).
#[inline(always)]
unsafe fn map_generic<C: Convert, const FUSED: bool>(
    dst: *mut u8,
    src: *const u8,
    len: usize,
    params: &Params,
) -> Losses {
    let (dst, src) = (dst.cast::<C::Dst>(), src.cast::<C::Src>());
    // A copy, since LLVM cannot know that the target does not overlap the parameters.
    let params = *params;
    // The first element on a cache line of the target; beyond `len` if there is none.
    let head = if params.stream { dst.align_offset(LINE) } else { usize::MAX };
    // SAFETY: both ranges are inside the arrays, and the second one starts on a cache line of the target.
    unsafe {
        if head >= len {
            return chunks::<C, FUSED, false>(dst, src, len, &params);
        }
        let mut losses = chunks::<C, FUSED, false>(dst, src, head, &params);
        losses += chunks::<C, FUSED, true>(dst.add(head), src.add(head), len - head, &params);
        finish_stream();
        losses
    }
}

/// The elements of a chunk, whose loop needs no tail. Losses are counted per chunk, since a counter
/// as wide as the element keeps the loop in vector registers.
pub(super) const CHUNK: usize = 256;
/// The number of chunks for which the quick way is not tried after one with an element in doubt, as
/// others may be like it.
const PATIENCE: usize = 8;
/// The distance at which the source is prefetched, in bytes.
const AHEAD: usize = 2048;

/// Memory for a chunk.
#[repr(align(64))]
struct Chunk<D>(MaybeUninit<[D; CHUNK]>);

/// Converts whole chunks and the rest. With `STREAM`, the source is prefetched, and writes to the target
/// bypass the caches.
///
/// # Safety
///
/// The conditions of [`Kernel`](super::Kernel). With `STREAM`, the target starts on a cache line.
#[inline(always)]
unsafe fn chunks<C: Convert, const FUSED: bool, const STREAM: bool>(
    dst: *mut C::Dst,
    src: *const C::Src,
    len: usize,
    params: &Params,
) -> Losses {
    let mut losses = Losses::default();
    let mut exact = 0;
    let whole = len / CHUNK * CHUNK;
    for start in (0..whole).step_by(CHUNK) {
        // SAFETY: the chunk is inside both arrays and starts on a cache line of the target where it is
        // streamed; the local chunk has room for it.
        losses += unsafe {
            let (dst, src) = (dst.add(start), src.add(start));
            if STREAM {
                let mut chunk = Chunk::<C::Dst>(MaybeUninit::uninit());
                let local = chunk.0.as_mut_ptr().cast::<C::Dst>();
                prefetch(src.cast::<u8>().wrapping_add(AHEAD), CHUNK * size_of::<C::Src>());
                let losses = convert_chunk::<C, FUSED>(local, src, params, &mut exact);
                stream(dst.cast(), local.cast(), CHUNK * size_of::<C::Dst>());
                losses
            } else {
                convert_chunk::<C, FUSED>(dst, src, params, &mut exact)
            }
        };
    }
    // SAFETY: the rest is inside both arrays.
    losses += unsafe { elements::<C, true>(dst.add(whole), src.add(whole), len - whole, params) };
    losses
}

/// Converts a chunk, again and exactly if the quick way leaves an element in doubt. For the next `exact` chunks
/// it is not tried.
///
/// # Safety
///
/// The conditions of [`Kernel`](super::Kernel), with a chunk.
#[inline(always)]
unsafe fn convert_chunk<C: Convert, const FUSED: bool>(
    dst: *mut C::Dst,
    src: *const C::Src,
    params: &Params,
    exact: &mut usize,
) -> Losses {
    // SAFETY: source and target hold a chunk and do not overlap.
    unsafe {
        if FUSED && C::IS_QUICK {
            if *exact > 0 {
                *exact -= 1;
            } else if quick_elements::<C>(dst, src, params) {
                return Losses::default();
            } else {
                *exact = PATIENCE;
            }
        }
        if FUSED && C::HAS_INSTRUCTION {
            C::by_instruction(dst, src, CHUNK);
            return elements::<C, false>(dst, src, CHUNK, params);
        }
        elements::<C, true>(dst, src, CHUNK, params)
    }
}

/// Converts a chunk with [`Convert::quick`], and says whether no element of it is in doubt.
///
/// # Safety
///
/// The conditions of [`Kernel`](super::Kernel), with a chunk.
#[inline(always)]
unsafe fn quick_elements<C: Convert>(
    dst: *mut C::Dst,
    src: *const C::Src,
    params: &Params,
) -> bool {
    let mut least = u32::MAX;
    for i in 0..CHUNK {
        // SAFETY: `i` is less than the length. No alignment is assumed.
        unsafe {
            let (value, certain) = C::quick(src.add(i).read_unaligned(), params);
            dst.add(i).write_unaligned(value);
            least = least.min(certain);
        }
    }
    least > 0
}

/// Converts a few elements, or only counts what is lost.
///
/// # Safety
///
/// The conditions of [`Kernel`](super::Kernel); `len` fits in 32 bits.
#[inline(always)]
unsafe fn elements<C: Convert, const WRITE: bool>(
    dst: *mut C::Dst,
    src: *const C::Src,
    len: usize,
    params: &Params,
) -> Losses {
    // Counters as wide as the elements: clipped ones, then fractions.
    let (mut narrow, mut wide) = ([0_u32; 2], [0_u64; 2]);
    for i in 0..len {
        // SAFETY: `i` is less than `len`. No alignment is assumed.
        unsafe {
            let x = src.add(i).read_unaligned();
            let (value, clip) = C::convert(x, params);
            if WRITE {
                dst.add(i).write_unaligned(value);
            }
            if size_of::<C::Src>() > 4 {
                wide[0] += u64::from(clip);
                wide[1] += u64::from(C::loses_fraction(x));
            } else {
                narrow[0] += u32::from(clip);
                narrow[1] += u32::from(C::loses_fraction(x));
            }
        }
    }
    let [clipped, fractions] = [0, 1].map(|i| u64::from(narrow[i]) + wide[i]);
    Losses { clipped, fractions }
}

/// Copies elements of this many bytes.
///
/// # Safety
///
/// The conditions of [`Kernel`](super::Kernel).
pub(super) unsafe fn copy_bytes<const BYTES: usize>(
    dst: *mut u8,
    src: *const u8,
    len: usize,
    _: &Params,
) -> Losses {
    // SAFETY: source and target hold the elements and do not overlap.
    unsafe { dst.copy_from_nonoverlapping(src, len * BYTES) };
    Losses::default()
}
