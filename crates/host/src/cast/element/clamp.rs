//! Casts between the types that processors compute with.

use super::{Bool, Convert, Params};

/// The cast with [`Scaling::Clamp`](super::super::Scaling), and whether the value was clipped.
pub(in super::super) trait CastTo<D>: Copy {
    fn cast(self) -> (D, bool);

    /// The same as [`Convert::loses_fraction`].
    #[inline(always)]
    fn loses_fraction(self) -> bool {
        false
    }
}

/// A rounded floating point number as an integer: saturates, NaN is zero. The flag says whether the value
/// was clipped.
pub(super) trait FromRounded<F> {
    fn from_rounded(x: F) -> (Self, bool)
    where
        Self: Sized;
}

macro_rules! from_rounded {
    ($float:ident: $($int:ident)*) => {$(
        impl FromRounded<$float> for $int {
            #[inline(always)]
            fn from_rounded(x: $float) -> ($int, bool) {
                const MIN: $float = $int::MIN as $float;
                const MAX: $float = $int::MAX as $float;
                // Each comparison is one instruction, unlike `max` and `min`, and makes NaN the minimum.
                let raised = if x > MIN { x } else { MIN };
                let kept = if raised < MAX { raised } else { MAX };
                let number = if MIN != 0.0 && x.is_nan() { 0.0 } else { kept };
                // SAFETY: the number is between two limits that the float represents exactly and an i32
                // contains.
                let int = unsafe { number.to_int_unchecked::<i32>() };
                (int as $int, kept != x)
            }
        }
    )*};
}

from_rounded! { f32: u8 i8 u16 i16 }
from_rounded! { f64: u8 i8 u16 i16 i32 }

impl FromRounded<f64> for u32 {
    #[inline(always)]
    fn from_rounded(x: f64) -> (u32, bool) {
        const HALF: f64 = 2_147_483_648.0;
        const MAX: f64 = u32::MAX as f64;
        let raised = if x > 0.0 { x } else { 0.0 };
        let kept = if raised < MAX { raised } else { MAX };
        // Through i32, since vector units before AVX-512 only convert to signed integers.
        // SAFETY: the number is a whole one from 0 to 2^32 - 1, so minus 2^31 it is an i32.
        let int = unsafe { (kept - HALF).to_int_unchecked::<i32>() };
        (int as u32 ^ 1 << 31, kept != x)
    }
}

macro_rules! from_rounded_64 {
    ($($int:ident $end:literal)*) => {$(
        impl FromRounded<f64> for $int {
            #[inline(always)]
            fn from_rounded(x: f64) -> ($int, bool) {
                // No float is the largest integer, but one is the next power of two.
                const END: f64 = $end;
                (x as $int, !(x >= $int::MIN as f64 && x < END))
            }
        }
    )*};
}

from_rounded_64! { i64 9_223_372_036_854_775_808.0 u64 18_446_744_073_709_551_616.0 }

macro_rules! float_to_int {
    ($float:ident through $wide:ident: $($int:ident)*) => {$(
        impl CastTo<$int> for $float {
            #[inline(always)]
            fn cast(self) -> ($int, bool) {
                $int::from_rounded($wide::from(self.round_ties_even()))
            }

            #[inline(always)]
            fn loses_fraction(self) -> bool {
                // The difference of an infinity or a NaN is NaN, which is not greater than zero.
                (self - self.round_ties_even()).abs() > 0.0
            }
        }
    )*};
}

float_to_int! { f32 through f32: u8 i8 u16 i16 }
float_to_int! { f32 through f64: u32 i32 u64 i64 }
float_to_int! { f64 through f64: u8 i8 u16 i16 u32 i32 u64 i64 }

macro_rules! int_to_int {
    ($src:ident: $($dst:ident)*) => {$(
        impl CastTo<$dst> for $src {
            #[inline(always)]
            fn cast(self) -> ($dst, bool) {
                const MIN: $src = if ($dst::MIN as i128) > $src::MIN as i128 {
                    $dst::MIN as $src
                } else {
                    $src::MIN
                };
                const MAX: $src = if ($dst::MAX as i128) < $src::MAX as i128 {
                    $dst::MAX as $src
                } else {
                    $src::MAX
                };
                let kept = self.clamp(MIN, MAX);
                (kept as $dst, kept != self)
            }
        }
    )*};
}

macro_rules! real {
    ($src:ident zero $zero:literal: $($float:ident)*) => {
        $(
            impl CastTo<$float> for $src {
                #[inline(always)]
                fn cast(self) -> ($float, bool) {
                    (self as $float, false)
                }
            }
        )*

        impl CastTo<Bool> for $src {
            #[inline(always)]
            fn cast(self) -> (Bool, bool) {
                (Bool((self != $zero) as u8), false)
            }
        }
    };
}

macro_rules! int {
    ($($src:ident)*) => {$(
        int_to_int! { $src: u8 i8 u16 i16 u32 i32 u64 i64 }
        real! { $src zero 0: f32 f64 }
    )*};
}

int! { u8 i8 u16 i16 u32 i32 u64 i64 }
real! { f32 zero 0.0: f32 f64 }
real! { f64 zero 0.0: f64 }

impl CastTo<f32> for f64 {
    #[inline(always)]
    fn cast(self) -> (f32, bool) {
        // Half a unit beyond the largest f32. What is less is rounded to that, the tie is not.
        const TOO_LARGE: f64 = ((1_u128 << 127) as f64) * 2.0 - (1_u128 << 103) as f64;
        let size = self.abs();
        (self as f32, (TOO_LARGE..f64::INFINITY).contains(&size))
    }
}

impl<D> CastTo<D> for Bool
where
    u8: CastTo<D>,
{
    #[inline(always)]
    fn cast(self) -> (D, bool) {
        ((self.0 != 0) as u8).cast()
    }
}

/// The cast with [`Scaling::Clamp`](super::super::Scaling).
pub(in super::super) struct Clamp<S, D>(S, D);

impl<S: CastTo<D>, D: Copy> Convert for Clamp<S, D> {
    type Src = S;
    type Dst = D;

    #[inline(always)]
    fn convert(x: S, _: &Params) -> (D, bool) {
        x.cast()
    }

    #[inline(always)]
    fn loses_fraction(x: S) -> bool {
        x.loses_fraction()
    }
}
