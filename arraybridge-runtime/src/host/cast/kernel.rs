//! Loops over compact arrays, compiled for the processors that we choose between at run time, and
//! the table of them.

use super::element::*;
use super::small::*;
use crate::dtype::DType;

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
    // Counted in blocks: a counter as wide as the element keeps the loop in vector registers.
    const BLOCK: usize = 4096;
    let (dst, src) = (dst.cast::<E::Dst>(), src.cast::<E::Src>());
    let mut clipped = 0;
    let mut start = 0;
    while start < len {
        let end = len.min(start + BLOCK);
        let (mut narrow, mut wide) = (0_u32, 0_u64);
        for i in start..end {
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
        clipped += u64::from(narrow) + wide;
        start = end;
    }
    clipped
}

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
    const LANES: usize = 16;
    let src = src.cast::<F>();
    let (mut low, mut high) = ([F::INFINITY; LANES], [F::NEG_INFINITY; LANES]);
    let whole = len / LANES * LANES;
    for block in (0..whole).step_by(LANES) {
        for lane in 0..LANES {
            // SAFETY: below `len`, and no alignment is assumed.
            let x = unsafe { src.add(block + lane).read_unaligned() };
            low[lane] = x.lower(low[lane]);
            high[lane] = x.higher(high[lane]);
        }
    }
    for i in whole..len {
        // SAFETY: below `len`, and no alignment is assumed.
        let x = unsafe { src.add(i).read_unaligned() };
        low[0] = x.lower(low[0]);
        high[0] = x.higher(high[0]);
    }
    let low = low.into_iter().fold(F::INFINITY, |low, x| x.lower(low));
    let high = high.into_iter().fold(F::NEG_INFINITY, |high, x| x.higher(high));
    (low.into(), high.into())
}

/// What the search for the ends needs of `f32` and `f64`.
trait Float: Copy + Into<f64> {
    const INFINITY: Self;
    const NEG_INFINITY: Self;
    /// The smaller one, if `self` is finite.
    fn lower(self, than: Self) -> Self;
    /// The larger one, if `self` is finite.
    fn higher(self, than: Self) -> Self;
}

macro_rules! floats {
    ($($float:ident)*) => {$(
        impl Float for $float {
            const INFINITY: $float = $float::INFINITY;
            const NEG_INFINITY: $float = $float::NEG_INFINITY;

            #[inline(always)]
            fn lower(self, than: $float) -> $float {
                if (self < than) & (self.abs() < $float::INFINITY) { self } else { than }
            }

            #[inline(always)]
            fn higher(self, than: $float) -> $float {
                if (self > than) & (self.abs() < $float::INFINITY) { self } else { than }
            }
        }
    )*};
}

floats! { f32 f64 }

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
