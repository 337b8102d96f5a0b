//! One element at a time: what each cast means, written so that a loop over it becomes vector code.

use half::bf16;

use super::small::{self, SmallFloat};

/// `bool` as it lies in memory: any byte but zero is true.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Bool(pub u8);

/// What a kernel knows of the whole array.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Params {
    /// The finite minimum, times `scale`.
    pub min: f64,
    /// The finite maximum less the minimum, times `scale`; zero for a constant array.
    pub range: f64,
    /// 1, or 1/2 where the difference of the ends is beyond the largest `f64`.
    pub scale: f64,
}

impl Params {
    /// For values between these ends; `min > max` says that there are none.
    pub fn stretch(min: f64, max: f64) -> Params {
        if min > max {
            return Params { min: 0.0, range: 0.0, scale: 1.0 };
        }
        let scale = if (max - min).is_finite() { 1.0 } else { 0.5 };
        Params { min: min * scale, range: max * scale - min * scale, scale }
    }
}

/// A conversion of one element; the flag says that the value was clipped.
pub(super) trait Each {
    /// The element that is read.
    type Src: Copy;
    /// The element that is written.
    type Dst: Copy;
    /// The conversion.
    fn each(x: Self::Src, params: &Params) -> (Self::Dst, bool);
}

/// The plain cast of one type to another: integers round half to even and saturate, NaN is zero.
pub(super) trait CastTo<D>: Copy {
    fn cast(self) -> (D, bool);
}

/// An integer of a floating point number without a fraction; out of range saturates, NaN is zero.
trait FromRounded<F> {
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
                // As comparisons, not `max` and `min`: one instruction each, and NaN gives MIN.
                let raised = if x > MIN { x } else { MIN };
                let kept = if raised < MAX { raised } else { MAX };
                let number = if MIN != 0.0 && x.is_nan() { 0.0 } else { kept };
                // SAFETY: the ends are exact in the floating point type and lie in an i32.
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
        // Through i32, as vector units before AVX-512 convert to signed integers only.
        // SAFETY: a number from 0 to 2^32 - 1 without a fraction, less 2^31, is an i32.
        let int = unsafe { (kept - HALF).to_int_unchecked::<i32>() };
        (int as u32 ^ 1 << 31, kept != x)
    }
}

macro_rules! from_rounded_64 {
    ($($int:ident $end:literal)*) => {$(
        impl FromRounded<f64> for $int {
            #[inline(always)]
            fn from_rounded(x: f64) -> ($int, bool) {
                // The largest integer is not a float, the next power of two is.
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
real! { f64 zero 0.0: f32 f64 }

impl<D> CastTo<D> for Bool
where
    u8: CastTo<D>,
{
    #[inline(always)]
    fn cast(self) -> (D, bool) {
        ((self.0 != 0) as u8).cast()
    }
}

/// The plain cast.
pub(super) struct Clamp<S, D>(S, D);

impl<S: CastTo<D>, D: Copy> Each for Clamp<S, D> {
    type Src = S;
    type Dst = D;

    #[inline(always)]
    fn each(x: S, _: &Params) -> (D, bool) {
        x.cast()
    }
}

/// An integer of a number in [0, 1] or [-1, 1] times the largest integer, rounded once from the exact
/// product.
pub(super) trait FromUnit<F>: Copy {
    fn from_unit(x: F) -> (Self, bool);
}

/// `x * max`, rounded half to even as if the product were exact. `max` is at most 2^32: then the
/// product can only be mistaken for a tie, and its error says which side of it is meant.
#[inline(always)]
fn rounded_product(x: f64, max: f64) -> f64 {
    let product = x * max;
    let error = x.mul_add(max, -product);
    let rounded = product.round_ties_even();
    let rest = product - rounded;
    let up = if rest == 0.5 && error > 0.0 { 1.0 } else { 0.0 };
    let down = if rest == -0.5 && error < 0.0 { 1.0 } else { 0.0 };
    rounded + up - down
}

macro_rules! from_unit {
    ($($int:ident)*; $($short:ident)*) => {
        $(
            impl FromUnit<f64> for $int {
                #[inline(always)]
                fn from_unit(x: f64) -> ($int, bool) {
                    $int::from_rounded(rounded_product(x, $int::MAX as f64))
                }
            }
        )*
        $(
            impl FromUnit<f32> for $short {
                #[inline(always)]
                fn from_unit(x: f32) -> ($short, bool) {
                    // 24 bits times 16 bits: exact.
                    $short::from_rounded((f64::from(x) * $short::MAX as f64).round_ties_even())
                }
            }
        )*
    };
}

from_unit! { u8 i8 u16 i16 u32 i32; u8 i8 u16 i16 }

macro_rules! from_unit_widened {
    ($($int:ident)*) => {$(
        impl FromUnit<f32> for $int {
            #[inline(always)]
            fn from_unit(x: f32) -> ($int, bool) {
                $int::from_unit(f64::from(x))
            }
        }
    )*};
}

from_unit_widened! { u32 i32 u64 i64 }

/// `|x| * max`, exact and then rounded half to even; saturates at 2^127. NaN is zero.
fn wide_product(x: f64, max: u64) -> u128 {
    if x.is_nan() {
        return 0;
    }
    let bits = x.abs().to_bits();
    let exponent = (bits >> 52) as i32;
    let fraction = bits & ((1 << 52) - 1);
    let significand = if exponent == 0 { fraction } else { fraction | 1 << 52 };
    // The value is the significand times 2^-shift.
    let shift = 1075 - exponent.max(1);
    if shift <= 0 {
        return 1 << 127;
    }
    if shift > 120 {
        return 0;
    }
    let product = u128::from(significand) * u128::from(max);
    let rest = product & ((1 << shift) - 1);
    let half = 1_u128 << (shift - 1);
    let down = product >> shift;
    let up = rest > half || (rest == half && down & 1 == 1);
    down + u128::from(up)
}

impl FromUnit<f64> for u64 {
    #[inline(always)]
    fn from_unit(x: f64) -> (u64, bool) {
        let product = wide_product(x, u64::MAX);
        if x < 0.0 {
            return (0, product != 0);
        }
        let kept = product.min(u128::from(u64::MAX));
        (kept as u64, kept != product || x.is_nan())
    }
}

impl FromUnit<f64> for i64 {
    #[inline(always)]
    fn from_unit(x: f64) -> (i64, bool) {
        let product = wide_product(x, i64::MAX as u64) as i128;
        // 2^127 wraps to i128::MIN, which only an infinity or a huge number gives.
        let product = if product < 0 { i128::MAX } else { product };
        let signed = if x < 0.0 { -product } else { product };
        let kept = signed.clamp(i128::from(i64::MIN), i128::from(i64::MAX));
        (kept as i64, kept != signed || x.is_nan())
    }
}

/// Intensities of [0, 1] or [-1, 1].
pub(super) struct Unit<S, D>(S, D);

impl<S: Copy, D: FromUnit<S>> Each for Unit<S, D> {
    type Src = S;
    type Dst = D;

    #[inline(always)]
    fn each(x: S, _: &Params) -> (D, bool) {
        D::from_unit(x)
    }
}

/// An integer of a position from 0 to 1 in its whole range.
pub(super) trait FromPosition: Copy {
    fn from_position(position: f64) -> Self;
}

macro_rules! from_position {
    ($($int:ident)*) => {$(
        impl FromPosition for $int {
            #[inline(always)]
            fn from_position(position: f64) -> $int {
                const SPAN: f64 = $int::MAX as f64 - $int::MIN as f64;
                $int::from_rounded((position * SPAN).round_ties_even() + $int::MIN as f64).0
            }
        }
    )*};
}

from_position! { u8 i8 u16 i16 u32 i32 }

impl FromPosition for u64 {
    #[inline(always)]
    fn from_position(position: f64) -> u64 {
        u64::from_unit(position).0
    }
}

impl FromPosition for i64 {
    #[inline(always)]
    fn from_position(position: f64) -> i64 {
        if position.is_nan() {
            return 0;
        }
        (u64::from_unit(position).0 ^ 1 << 63) as i64
    }
}

/// The finite minimum and maximum become the ends of the integer.
pub(super) struct Stretch<S, D>(S, D);

impl<S: Copy + Into<f64>, D: FromPosition> Each for Stretch<S, D> {
    type Src = S;
    type Dst = D;

    #[inline(always)]
    fn each(x: S, params: &Params) -> (D, bool) {
        let x: f64 = x.into();
        // In a constant array this is 0/0 for the finite values, so that they become zero.
        let position = (x * params.scale - params.min) / params.range;
        (D::from_position(position), !x.is_finite())
    }
}

/// An exact or odd-rounded `f64`: the last bit says whether something was cut off, so that rounding
/// it to any smaller format is the same as rounding the original once.
pub(super) trait ToOdd: Copy {
    fn to_odd(self) -> f64;
}

macro_rules! exact_to_odd {
    ($($src:ident)*) => {$(
        impl ToOdd for $src {
            #[inline(always)]
            fn to_odd(self) -> f64 {
                f64::from(self)
            }
        }
    )*};
}

exact_to_odd! { u8 i8 u16 i16 u32 i32 f32 f64 }

impl ToOdd for Bool {
    #[inline(always)]
    fn to_odd(self) -> f64 {
        f64::from((self.0 != 0) as u8)
    }
}

impl ToOdd for u64 {
    #[inline(always)]
    fn to_odd(self) -> f64 {
        // 64 bits to at most 53, with the cut bits gathered in the last.
        let cut = 11_u32.saturating_sub(self.leading_zeros());
        let sticky = self & ((1 << cut) - 1) != 0;
        ((self >> cut | u64::from(sticky)) << cut) as f64
    }
}

impl ToOdd for i64 {
    #[inline(always)]
    fn to_odd(self) -> f64 {
        self.unsigned_abs().to_odd().copysign(if self < 0 { -1.0 } else { 1.0 })
    }
}

/// To `f64` on the way to a small float.
pub(super) struct Odd<S>(S);

impl<S: ToOdd> Each for Odd<S> {
    type Src = S;
    type Dst = f64;

    #[inline(always)]
    fn each(x: S, _: &Params) -> (f64, bool) {
        (x.to_odd(), false)
    }
}

/// A small float to `f32`, exact.
pub(super) struct Decode<F>(F);

impl<F: SmallFloat> Each for Decode<F> {
    type Src = F::Bits;
    type Dst = f32;

    #[inline(always)]
    fn each(x: F::Bits, _: &Params) -> (f32, bool) {
        (F::decode(x), false)
    }
}

/// `f64` to a small float, rounded half to even.
pub(super) struct Encode<F>(F);

impl<F: SmallFloat> Each for Encode<F> {
    type Src = f64;
    type Dst = F::Bits;

    #[inline(always)]
    fn each(x: f64, _: &Params) -> (F::Bits, bool) {
        (F::encode(x), false)
    }
}

/// `f32` to bfloat16.
pub(super) struct Brain;

impl Each for Brain {
    type Src = f32;
    type Dst = u16;

    #[inline(always)]
    fn each(x: f32, _: &Params) -> (u16, bool) {
        (bf16::from_f32(x).to_bits(), false)
    }
}

/// `f32` to float16.
pub(super) struct Half;

impl Each for Half {
    type Src = f32;
    type Dst = u16;

    #[inline(always)]
    fn each(x: f32, _: &Params) -> (u16, bool) {
        (small::f32_to_f16(x), false)
    }
}

/// A real number to a complex one of the same part.
pub(super) struct Complex<S>(S);

impl<S: Copy + Default> Each for Complex<S> {
    type Src = S;
    type Dst = [S; 2];

    #[inline(always)]
    fn each(x: S, _: &Params) -> ([S; 2], bool) {
        ([x, S::default()], false)
    }
}

/// Both parts of a complex number.
pub(super) struct Parts<S, D>(S, D);

impl<S: CastTo<D>, D: Copy> Each for Parts<S, D> {
    type Src = [S; 2];
    type Dst = [D; 2];

    #[inline(always)]
    fn each(x: [S; 2], _: &Params) -> ([D; 2], bool) {
        (x.map(|part| part.cast().0), false)
    }
}

/// Whether a complex number is not zero.
pub(super) struct NonZero<S>(S);

impl<S: CastTo<Bool>> Each for NonZero<S> {
    type Src = [S; 2];
    type Dst = Bool;

    #[inline(always)]
    fn each(x: [S; 2], _: &Params) -> (Bool, bool) {
        (Bool(x[0].cast().0.0 | x[1].cast().0.0), false)
    }
}
