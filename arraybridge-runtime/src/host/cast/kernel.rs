//! Loops over contiguous arrays, compiled for the processors that we choose between at run time, and
//! the table of them.

use std::mem::MaybeUninit;

use super::element::*;
use super::small::*;
use crate::host::dtype::DType;

/// Casts `len` elements from the second pointer to the first and counts the clipped ones.
///
/// # Safety
///
/// The source holds as many elements, the target has room for them, and they do not overlap.
/// Neither needs to be aligned.
pub(super) type Kernel = unsafe fn(*mut u8, *const u8, usize, &Params) -> u64;

/// The finite minimum and maximum of `len` elements; `(inf, -inf)` where there is none.
///
/// # Safety
///
/// The pointer is to as many elements; it needs no alignment.
pub(super) type Extremes = unsafe fn(*const u8, usize) -> (f64, f64);

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

/// # Safety
///
/// As for [`Kernel`].
unsafe fn each<E: Each>(dst: *mut u8, src: *const u8, len: usize, params: &Params) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: the processor has the features, the rest is the caller's promise.
        return unsafe { each_avx2::<E>(dst, src, len, params) };
    }
    // SAFETY: the caller's promise.
    unsafe { each_plain::<E>(dst, src, len, params) }
}

/// # Safety
///
/// As for [`Kernel`], on a processor with these features.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn each_avx2<E: Each>(dst: *mut u8, src: *const u8, len: usize, params: &Params) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { each_plain::<E>(dst, src, len, params) }
}

/// # Safety
///
/// As for [`Kernel`].
#[inline(always)]
unsafe fn each_plain<E: Each>(dst: *mut u8, src: *const u8, len: usize, params: &Params) -> u64 {
    let (dst, src) = (dst.cast::<E::Dst>(), src.cast::<E::Src>());
    // A copy, as the target could lie over what is behind the reference for all that LLVM knows.
    let params = *params;
    // Where the target's lines start; beyond `len` if no element starts on a line.
    let head = if params.stream { dst.align_offset(LINE) } else { usize::MAX };
    // SAFETY: the ranges are parts of the arrays, one after the other.
    unsafe {
        if head >= len {
            return chunks::<E, false>(dst, src, len, &params);
        }
        let clipped = chunks::<E, false>(dst, src, head, &params)
            + chunks::<E, true>(dst.add(head), src.add(head), len - head, &params);
        finish_stream();
        clipped
    }
}

/// Elements of a chunk, whose loop has no tail. Clipped values are counted by chunks: a counter as
/// wide as the element keeps the loop in vector registers.
const CHUNK: usize = 256;
/// Bytes of a cache line.
const LINE: usize = 64;
/// How far ahead of a chunk its source is asked for, in bytes.
const AHEAD: usize = 2048;

/// Memory for a chunk.
#[repr(align(64))]
struct Chunk<D>(MaybeUninit<[D; CHUNK]>);

/// With `STREAM`, asks for the source ahead and writes the target past the caches.
///
/// # Safety
///
/// As for [`Kernel`]; with `STREAM` the target starts on a cache line.
#[inline(always)]
unsafe fn chunks<E: Each, const STREAM: bool>(
    dst: *mut E::Dst,
    src: *const E::Src,
    len: usize,
    params: &Params,
) -> u64 {
    let mut clipped = 0;
    let whole = len / CHUNK * CHUNK;
    for start in (0..whole).step_by(CHUNK) {
        // SAFETY: the chunk lies inside both arrays, and the local one has room for it.
        clipped += unsafe {
            let (dst, src) = (dst.add(start), src.add(start));
            if STREAM {
                let mut chunk = Chunk::<E::Dst>(MaybeUninit::uninit());
                let local = chunk.0.as_mut_ptr().cast::<E::Dst>();
                prefetch(src.cast::<u8>().wrapping_add(AHEAD), CHUNK * size_of::<E::Src>());
                let clipped = elements::<E>(local, src, CHUNK, params);
                stream(dst.cast(), local.cast(), CHUNK * size_of::<E::Dst>());
                clipped
            } else {
                elements::<E>(dst, src, CHUNK, params)
            }
        };
    }
    // SAFETY: the rest of both arrays.
    clipped + unsafe { elements::<E>(dst.add(whole), src.add(whole), len - whole, params) }
}

/// # Safety
///
/// As for [`Kernel`]; `len` fits in 32 bits.
#[inline(always)]
unsafe fn elements<E: Each>(
    dst: *mut E::Dst,
    src: *const E::Src,
    len: usize,
    params: &Params,
) -> u64 {
    let (mut narrow, mut wide) = (0_u32, 0_u64);
    for i in 0..len {
        // SAFETY: `i` is below `len`, and no alignment is assumed.
        unsafe {
            let (value, clip) = E::each(src.add(i).read_unaligned(), params);
            dst.add(i).write_unaligned(value);
            if size_of::<E::Src>() > 4 {
                wide += u64::from(clip);
            } else {
                narrow += u32::from(clip);
            }
        }
    }
    u64::from(narrow) + wide
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn prefetch(start: *const u8, bytes: usize) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    for line in (0..bytes).step_by(LINE) {
        // SAFETY: a hint may name any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(line).cast()) };
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn prefetch(_start: *const u8, _bytes: usize) {}

/// Copies past the caches, so that a line of the target need not be read before it is written.
///
/// # Safety
///
/// Both hold the bytes, a whole number of cache lines, and start on one; they do not overlap.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn stream(dst: *mut u8, src: *const u8, bytes: usize) {
    use std::arch::x86_64::{__m128i, _mm_load_si128, _mm_stream_si128};
    for at in (0..bytes).step_by(size_of::<__m128i>()) {
        // SAFETY: inside both, and aligned as they are.
        unsafe { _mm_stream_si128(dst.add(at).cast(), _mm_load_si128(src.add(at).cast())) };
    }
}

/// Makes what was streamed visible to other threads, as ordinary writes are.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn finish_stream() {
    // SAFETY: a fence has no precondition.
    unsafe { std::arch::x86_64::_mm_sfence() };
}

/// # Safety
///
/// Both hold the bytes and do not overlap.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn stream(dst: *mut u8, src: *const u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { dst.copy_from_nonoverlapping(src, bytes) };
}

#[cfg(not(target_arch = "x86_64"))]
fn finish_stream() {}

/// # Safety
///
/// As for [`Kernel`].
unsafe fn same<const BYTES: usize>(dst: *mut u8, src: *const u8, len: usize, _: &Params) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { dst.copy_from_nonoverlapping(src, len * BYTES) };
    0
}

/// # Safety
///
/// As for [`Extremes`].
unsafe fn extremes<F: Float>(src: *const u8, len: usize) -> (f64, f64) {
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: the processor has the features, the rest is the caller's promise.
        return unsafe { extremes_avx2::<F>(src, len) };
    }
    // SAFETY: the caller's promise.
    unsafe { extremes_plain::<F>(src, len) }
}

/// # Safety
///
/// As for [`Extremes`], on a processor with these features.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn extremes_avx2<F: Float>(src: *const u8, len: usize) -> (f64, f64) {
    // SAFETY: the caller's promise.
    unsafe { extremes_plain::<F>(src, len) }
}

/// # Safety
///
/// As for [`Extremes`].
#[inline(always)]
unsafe fn extremes_plain<F: Float>(src: *const u8, len: usize) -> (f64, f64) {
    let src = src.cast::<F>();
    let (mut low, mut high) = (F::TOP, F::BOTTOM);
    for start in (0..len).step_by(CHUNK) {
        // What stands for the others is a variable: LLVM would move a constant out of the minimum
        // and then no longer see one.
        let (top, bottom) = (low, high);
        for i in start..len.min(start + CHUNK) {
            // SAFETY: `i` is below `len`, and no alignment is assumed.
            let x = unsafe { src.add(i).read_unaligned() };
            let (key, finite) = (x.key(), x.finite());
            low = low.min(if finite { key } else { top });
            high = high.max(if finite { key } else { bottom });
        }
    }
    if low > high { (f64::INFINITY, f64::NEG_INFINITY) } else { (F::value(low), F::value(high)) }
}

/// What the search for the ends needs of `f32` and `f64`: integers in the same order, as only of
/// these LLVM may regroup the search.
trait Float: Copy {
    type Key: Copy + Ord;
    const TOP: Self::Key;
    const BOTTOM: Self::Key;
    /// Greater for a greater number.
    fn key(self) -> Self::Key;
    fn finite(self) -> bool;
    /// The number of a key.
    fn value(key: Self::Key) -> f64;
}

macro_rules! floats {
    ($($float:ident $int:ident)*) => {$(
        impl Float for $float {
            type Key = $int;
            const TOP: $int = $int::MAX;
            const BOTTOM: $int = $int::MIN;

            #[inline(always)]
            fn key(self) -> $int {
                let bits = self.to_bits() as $int;
                // Negative numbers grow with their bits: turn those, but for the sign.
                bits ^ (bits >> ($int::BITS - 1) & $int::MAX)
            }

            #[inline(always)]
            fn finite(self) -> bool {
                self.abs() < $float::INFINITY
            }

            fn value(key: $int) -> f64 {
                // The key of a key is the number's bits.
                f64::from($float::from_bits($float::from_bits(key as _).key() as _))
            }
        }
    )*};
}

floats! { f32 i32 f64 i64 }

/// The search for the ends of an array; `None` for other element types than these two.
pub(super) fn extremes_of(dtype: DType) -> Option<Extremes> {
    match dtype {
        DType::Float32 => Some(extremes::<f32>),
        DType::Float64 => Some(extremes::<f64>),
        _ => None,
    }
}

/// A match on the types that are computed with directly.
macro_rules! for_native {
    ($dtype:expr, $type:ident => $kernel:expr) => {
        for_native!($dtype, $type => $kernel,
            Bool Bool, Uint8 u8, Uint16 u16, Uint32 u32, Uint64 u64, Int8 i8, Int16 i16, Int32 i32,
            Int64 i64, Float32 f32, Float64 f64)
    };
    ($dtype:expr, $type:ident => $kernel:expr, $($variant:ident $native:ty),*) => {
        match $dtype {
            $(DType::$variant => {
                type $type = $native;
                Some($kernel)
            })*
            _ => None,
        }
    };
}

macro_rules! for_int {
    ($dtype:expr, $type:ident => $kernel:expr) => {
        for_native!($dtype, $type => $kernel,
            Uint8 u8, Uint16 u16, Uint32 u32, Uint64 u64, Int8 i8, Int16 i16, Int32 i32, Int64 i64)
    };
}

macro_rules! for_small {
    ($dtype:expr, $type:ident => $kernel:expr) => {
        for_native!($dtype, $type => $kernel,
            Float16 Float16, Bfloat16 Bfloat16, Float8E3m4 E3m4, Float8E4m3 E4m3,
            Float8E4m3b11fnuz E4m3b11fnuz, Float8E4m3fn E4m3fn, Float8E4m3fnuz E4m3fnuz,
            Float8E5m2 E5m2, Float8E5m2fnuz E5m2fnuz, Float8E8m0fnu E8m0fnu)
    };
}

/// The plain cast of two types that are computed with directly.
pub(super) fn clamp(src: DType, dst: DType) -> Option<Kernel> {
    match src {
        DType::Bool => clamp_from::<Bool>(dst),
        DType::Uint8 => clamp_from::<u8>(dst),
        DType::Uint16 => clamp_from::<u16>(dst),
        DType::Uint32 => clamp_from::<u32>(dst),
        DType::Uint64 => clamp_from::<u64>(dst),
        DType::Int8 => clamp_from::<i8>(dst),
        DType::Int16 => clamp_from::<i16>(dst),
        DType::Int32 => clamp_from::<i32>(dst),
        DType::Int64 => clamp_from::<i64>(dst),
        DType::Float32 => clamp_from::<f32>(dst),
        DType::Float64 => clamp_from::<f64>(dst),
        _ => None,
    }
}

/// What can be cast to every type that is computed with directly.
trait Native:
    CastTo<Bool>
    + CastTo<u8>
    + CastTo<u16>
    + CastTo<u32>
    + CastTo<u64>
    + CastTo<i8>
    + CastTo<i16>
    + CastTo<i32>
    + CastTo<i64>
    + CastTo<f32>
    + CastTo<f64>
{
}

impl Native for Bool {}
impl Native for u8 {}
impl Native for u16 {}
impl Native for u32 {}
impl Native for u64 {}
impl Native for i8 {}
impl Native for i16 {}
impl Native for i32 {}
impl Native for i64 {}
impl Native for f32 {}
impl Native for f64 {}

fn clamp_from<S: Native>(dst: DType) -> Option<Kernel> {
    for_native!(dst, D => each::<Clamp<S, D>>)
}

/// An intensity of [0, 1] or [-1, 1] to an integer.
pub(super) fn unit(src: DType, dst: DType) -> Option<Kernel> {
    match src {
        DType::Float32 => for_int!(dst, D => each::<Unit<f32, D>>),
        DType::Float64 => for_int!(dst, D => each::<Unit<f64, D>>),
        _ => None,
    }
}

/// A number between the ends of its array to an integer.
pub(super) fn stretch(src: DType, dst: DType) -> Option<Kernel> {
    match src {
        DType::Float32 => for_int!(dst, D => each::<Stretch<f32, D>>),
        DType::Float64 => for_int!(dst, D => each::<Stretch<f64, D>>),
        _ => None,
    }
}

/// To `f64`, rounded to odd.
pub(super) fn odd(src: DType) -> Option<Kernel> {
    for_native!(src, S => each::<Odd<S>>)
}

/// A 16 or 8-bit float to `f32`.
pub(super) fn decode(src: DType) -> Option<Kernel> {
    for_small!(src, F => each::<Decode<F>>)
}

/// `f64`, rounded to odd, to a 16 or 8-bit float.
pub(super) fn encode(dst: DType) -> Option<Kernel> {
    for_small!(dst, F => each::<Encode<F>>)
}

/// `f32` to a 16-bit float.
pub(super) fn encode_f32(dst: DType) -> Option<Kernel> {
    match dst {
        DType::Float16 => Some(each::<Half>),
        DType::Bfloat16 => Some(each::<Brain>),
        _ => None,
    }
}

/// A part to a complex number.
pub(super) fn complex(dst: DType) -> Option<(DType, Kernel)> {
    match dst {
        DType::Complex64 => Some((DType::Float32, each::<Complex<f32>>)),
        DType::Complex128 => Some((DType::Float64, each::<Complex<f64>>)),
        _ => None,
    }
}

/// A complex number to another one or to `bool`.
pub(super) fn from_complex(src: DType, dst: DType) -> Option<Kernel> {
    match (src, dst) {
        (DType::Complex64, DType::Complex128) => Some(each::<Parts<f32, f64>>),
        (DType::Complex128, DType::Complex64) => Some(each::<Parts<f64, f32>>),
        (DType::Complex64, DType::Bool) => Some(each::<NonZero<f32>>),
        (DType::Complex128, DType::Bool) => Some(each::<NonZero<f64>>),
        _ => None,
    }
}

/// The copy of elements of this many bytes.
pub(super) fn copy(bytes: usize) -> Option<Kernel> {
    match bytes {
        1 => Some(same::<1>),
        2 => Some(same::<2>),
        4 => Some(same::<4>),
        8 => Some(same::<8>),
        16 => Some(same::<16>),
        _ => None,
    }
}
