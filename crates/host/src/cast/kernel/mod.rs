//! The loops over contiguous arrays, by element type.

/// A function that calls one of two: the first is compiled for AVX2, and called if the processor has it. Both have its
/// parameters and its conditions.
macro_rules! with_avx2 {
    ($(#[$about:meta])* $visible:vis unsafe fn $name:ident<$type:ident: $trait:ident>(
        $($argument:ident: $of:ty),*
    ) -> $result:ty { $avx2:expr, or $generic:expr }) => {
        $(#[$about])*
        $visible unsafe fn $name<$type: $trait>($($argument: $of),*) -> $result {
            #[cfg(target_arch = "x86_64")]
            if crate::processor::has_avx2() {
                #[target_feature(enable = "avx2,fma,f16c")]
                unsafe fn with_avx2<$type: $trait>($($argument: $of),*) -> $result {
                    // SAFETY: as the caller promises.
                    unsafe { $avx2($($argument),*) }
                }
                // SAFETY: as the caller promises, on a processor with these features.
                return unsafe { with_avx2::<$type>($($argument),*) };
            }
            // SAFETY: as the caller promises.
            unsafe { $generic($($argument),*) }
        }
    };
}

mod extremes;
mod loops;
mod rounded;

use std::ops::AddAssign;

use self::loops::{copy_bytes, map};
use super::element::*;
use super::small::*;
use crate::dtype::DType;

pub(super) use self::extremes::extremes_of;

/// The losses of a cast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Losses {
    /// The elements that were clipped.
    pub clipped: u64,
    /// The elements that were between whole numbers.
    pub fractions: u64,
}

impl AddAssign for Losses {
    #[inline(always)]
    fn add_assign(&mut self, other: Losses) {
        self.clipped += other.clipped;
        self.fractions += other.fractions;
    }
}

/// Converts `len` elements from the second pointer to the first, and counts what is lost.
///
/// # Safety
///
/// The source holds this many elements, the target has room for them, and they do not overlap. The pointers
/// need not be aligned.
pub(super) type Kernel = unsafe fn(*mut u8, *const u8, usize, &Params) -> Losses;

/// The finite minimum and maximum of `len` elements; `(inf, -inf)` if no element is finite.
///
/// # Safety
///
/// The source holds this many elements. The pointer need not be aligned.
pub(super) type Extremes = unsafe fn(*const u8, usize) -> (f64, f64);

/// The number of elements, of `len`, with more than this many significant bits.
///
/// # Safety
///
/// The source holds this many elements, whose type has more bits. The pointer need not be aligned.
pub(super) type Rounded = unsafe fn(*const u8, usize, u32) -> u64;

/// A match on the types that processors compute with.
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

/// A match on the types that have numbers which are no `f32`.
macro_rules! for_wide {
    ($dtype:expr, $type:ident => $kernel:expr) => {
        for_native!($dtype, $type => $kernel, Uint32 u32, Uint64 u64, Int32 i32, Int64 i64, Float64 f64)
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

/// The cast between two types that processors compute with.
pub(super) fn clamp(src: DType, dst: DType) -> Option<Kernel> {
    for_native!(src, S => {
        let kernel: Option<Kernel> = for_native!(dst, D => map::<Clamp<S, D>>);
        kernel?
    })
}

/// The search for numbers that have more significant bits than a type of floats.
pub(super) fn rounded_of(dtype: DType) -> Option<Rounded> {
    for_int!(dtype, I => rounded::rounded::<I>)
}

/// The search for numbers that are no `f32`; `None` if the type has no others.
pub(super) fn rounded_to_f32(dtype: DType) -> Option<Rounded> {
    for_wide!(dtype, S => rounded::rounded::<S>)
}

/// An intensity of [0, 1] or [-1, 1] to an integer.
pub(super) fn unit(src: DType, dst: DType) -> Option<Kernel> {
    match src {
        DType::Float32 => for_int!(dst, D => map::<Unit<f32, D>>),
        DType::Float64 => for_int!(dst, D => map::<Unit<f64, D>>),
        _ => None,
    }
}

/// A number between the extremes of its array to an integer.
pub(super) fn stretch(src: DType, dst: DType) -> Option<Kernel> {
    match src {
        DType::Float32 => for_int!(dst, D => map::<Stretch<f32, D>>),
        DType::Float64 => for_int!(dst, D => map::<Stretch<f64, D>>),
        _ => None,
    }
}

/// A number to `f32`, rounded to odd; `None` if every number of the type is one.
pub(super) fn odd(src: DType) -> Option<Kernel> {
    for_wide!(src, S => map::<Odd<S>>)
}

/// A 16 or 8-bit float to `f32`.
pub(super) fn decode(src: DType) -> Option<Kernel> {
    for_small!(src, F => map::<Decode<F>>)
}

/// An `f64` to a 16 or 8-bit float.
#[cfg(test)]
pub(super) fn encode(dst: DType) -> Option<Kernel> {
    for_small!(dst, F => map::<Encode<F>>)
}

/// An `f32`, which may have been rounded to odd, to a 16 or 8-bit float.
pub(super) fn encode_f32(dst: DType) -> Option<Kernel> {
    for_small!(dst, F => map::<EncodeF32<F, false>>)
}

/// An `f32`, which may have been rounded to the nearest one, to a 16 or 8-bit float. The fractions that are counted are
/// numbers that the first rounding may have moved to another result.
pub(super) fn encode_near(dst: DType) -> Option<Kernel> {
    match dst {
        DType::Float8E8m0fnu => None,
        _ => for_small!(dst, F => map::<EncodeF32<F, true>>),
    }
}

/// A real number to a complex one, with the type of the real number.
pub(super) fn complex(dst: DType) -> Option<(DType, Kernel)> {
    match dst {
        DType::Complex64 => Some((DType::Float32, map::<Complex<f32>>)),
        DType::Complex128 => Some((DType::Float64, map::<Complex<f64>>)),
        _ => None,
    }
}

/// A complex number to another type of complex numbers, or to `bool`.
pub(super) fn from_complex(src: DType, dst: DType) -> Option<Kernel> {
    match (src, dst) {
        (DType::Complex64, DType::Complex128) => Some(map::<Parts<f32, f64>>),
        (DType::Complex128, DType::Complex64) => Some(map::<Parts<f64, f32>>),
        (DType::Complex64, DType::Bool) => Some(map::<NonZero<f32>>),
        (DType::Complex128, DType::Bool) => Some(map::<NonZero<f64>>),
        _ => None,
    }
}

/// A copy of elements of this many bytes.
pub(super) fn copy(bytes: usize) -> Option<Kernel> {
    match bytes {
        1 => Some(copy_bytes::<1>),
        2 => Some(copy_bytes::<2>),
        4 => Some(copy_bytes::<4>),
        8 => Some(copy_bytes::<8>),
        16 => Some(copy_bytes::<16>),
        _ => None,
    }
}
