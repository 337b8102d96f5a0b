//! Casts to and from small floats and complex numbers.

use super::super::small::SmallFloat;
use super::clamp::CastTo;
use super::{Bool, Convert, Params};

/// A number as an `f32`, rounded to odd: the last bit says whether anything was cut off, so rounding the result
/// to a smaller format is the same as rounding the original once.
pub(in super::super) trait ToOdd: Copy {
    /// True if [`quick_odd`](Self::quick_odd) is faster.
    const IS_QUICK: bool;
    fn to_odd(self) -> f32;

    /// The same by arithmetic with floats, and 0 if it may be another number: for NaN, and for what a thread may flush to
    /// zero.
    fn quick_odd(self) -> (f32, u32);
}

macro_rules! to_odd {
    ($($src:ident $is_quick:literal |$x:ident| $odd:expr, $quick:expr;)*) => {$(
        impl ToOdd for $src {
            const IS_QUICK: bool = $is_quick;

            #[inline(always)]
            fn to_odd(self) -> f32 {
                let $x = self;
                $odd
            }

            #[inline(always)]
            fn quick_odd(self) -> (f32, u32) {
                let $x = self;
                $quick
            }
        }
    )*};
}

to_odd! {
    Bool false |x| f32::from(u8::from(x.0 != 0)), (x.to_odd(), 1);
    u8 false |x| f32::from(x), (x.to_odd(), 1);
    i8 false |x| f32::from(x), (x.to_odd(), 1);
    u16 false |x| f32::from(x), (x.to_odd(), 1);
    i16 false |x| f32::from(x), (x.to_odd(), 1);
    f32 false |x| x, (x, 1);
    u32 true |x| f64_to_odd(f64::from(x)), quick_f64(f64::from(x));
    i32 true |x| f64_to_odd(f64::from(x)), quick_f64(f64::from(x));
    u64 true |x| f64_to_odd(u64_to_odd(x)), quick_f64(u64_to_odd(x));
    i64 true |x| f64_to_odd(i64_to_odd(x)), quick_f64(i64_to_odd(x));
    f64 true |x| f64_to_odd(x), quick_f64(x);
}

/// An `f64` as an `f32`, rounded to odd, and 0 if it is NaN or smaller than the normal numbers of `f32`.
#[inline(always)]
fn quick_f64(x: f64) -> (f32, u32) {
    const LEAST: u64 = (1023 - 126) << (f64::MANTISSA_DIGITS - 1);
    const INFINITE: u64 = 0x7ff << (f64::MANTISSA_DIGITS - 1);
    let near = x as f32;
    let back = f64::from(near);
    // What was rounded away from zero is one too large.
    let down = near.to_bits().wrapping_sub(u32::from(back.abs() > x.abs()));
    let odd = down | u32::from(back != x);
    let magnitude = x.to_bits() & (u64::MAX >> 1);
    let certain = magnitude.wrapping_sub(LEAST) <= INFINITE - LEAST || magnitude == 0;
    (f32::from_bits(odd), u32::from(certain))
}

/// An integer as an `f64`, rounded to odd.
#[inline(always)]
fn u64_to_odd(x: u64) -> f64 {
    const CUT: u32 = u64::BITS - f64::MANTISSA_DIGITS;
    let sticky = u64::from(x & ((1 << CUT) - 1) != 0);
    let cut = (x >> CUT | sticky) << CUT;
    (if x >> f64::MANTISSA_DIGITS == 0 { x } else { cut }) as f64
}

/// The same of an integer with a sign.
#[inline(always)]
fn i64_to_odd(x: i64) -> f64 {
    u64_to_odd(x.unsigned_abs()).copysign(if x < 0 { -1.0 } else { 1.0 })
}

/// An `f64` as an `f32`, rounded to odd. By integers alone, since a thread may flush subnormal numbers to zero.
#[inline(always)]
fn f64_to_odd(x: f64) -> f32 {
    const FRACTION: u32 = f64::MANTISSA_DIGITS - 1;
    const CUT: u32 = f64::MANTISSA_DIGITS - f32::MANTISSA_DIGITS;
    const INFINITE: u64 = 0x7ff << FRACTION;
    /// The difference of the biases of the exponents.
    const LOWER: u64 = 1023 - 127;
    let magnitude = x.to_bits() & (u64::MAX >> 1);
    let exponent = magnitude >> FRACTION;
    let odd = |bits: u64, cut: u64| bits >> cut | u64::from(bits & ((1 << cut) - 1) != 0);
    let normal = odd(magnitude, CUT.into()).wrapping_sub(LOWER << (FRACTION - CUT));
    let hidden = u64::from(exponent != 0) << FRACTION;
    let significand = magnitude & ((1 << FRACTION) - 1) | hidden;
    // With a cut of 63, nothing is left but whether anything was there.
    let cut = (u64::from(CUT) + LOWER + 1).wrapping_sub(exponent);
    let finite = match exponent > LOWER {
        true => normal.min(f32::MAX.to_bits().into()),
        false => odd(significand, cut.min(63)),
    };
    let bits = match magnitude < INFINITE {
        true => finite as u32,
        false if magnitude == INFINITE => f32::INFINITY.to_bits(),
        false => f32::NAN.to_bits(),
    };
    f32::from_bits(bits | (x.to_bits() >> 32) as u32 & 1 << 31)
}

/// A number to `f32`, rounded to odd, on the way to a small float.
pub(in super::super) struct Odd<S>(S);

impl<S: ToOdd> Convert for Odd<S> {
    type Src = S;
    type Dst = f32;

    const IS_QUICK: bool = S::IS_QUICK;

    #[inline(always)]
    fn convert(x: S, _: &Params) -> (f32, bool) {
        (x.to_odd(), false)
    }

    #[inline(always)]
    fn quick(x: S, _: &Params) -> (f32, u32) {
        x.quick_odd()
    }
}

/// A small float to `f32`, which is exact.
pub(in super::super) struct Decode<F>(F);

impl<F: SmallFloat> Convert for Decode<F> {
    type Src = F::Bits;
    type Dst = f32;

    #[inline(always)]
    fn convert(x: F::Bits, _: &Params) -> (f32, bool) {
        (F::decode(x), false)
    }
}

/// An `f64` to a small float, rounded half to even: the reference of the tests.
#[cfg(test)]
pub(in super::super) struct Encode<F>(F);

#[cfg(test)]
impl<F: SmallFloat> Convert for Encode<F> {
    type Src = f64;
    type Dst = F::Bits;

    #[inline(always)]
    fn convert(x: f64, _: &Params) -> (F::Bits, bool) {
        let bits = F::encode(x);
        (bits, x.is_finite() && !F::decode(bits).is_finite())
    }
}

/// An `f32` to a small float, rounded half to even.
pub(in super::super) struct EncodeF32<F>(F);

impl<F: SmallFloat> Convert for EncodeF32<F> {
    type Src = f32;
    type Dst = F::Bits;

    #[inline(always)]
    fn convert(x: f32, _: &Params) -> (F::Bits, bool) {
        F::encode_f32(x)
    }
}

/// A real number to a complex one.
pub(in super::super) struct Complex<S>(S);

impl<S: Copy + Default> Convert for Complex<S> {
    type Src = S;
    type Dst = [S; 2];

    #[inline(always)]
    fn convert(x: S, _: &Params) -> ([S; 2], bool) {
        ([x, S::default()], false)
    }
}

/// A complex number to another type of complex numbers.
pub(in super::super) struct Parts<S, D>(S, D);

impl<S: CastTo<D>, D: Copy> Convert for Parts<S, D> {
    type Src = [S; 2];
    type Dst = [D; 2];

    #[inline(always)]
    fn convert(x: [S; 2], _: &Params) -> ([D; 2], bool) {
        let [(real, real_clipped), (imaginary, imaginary_clipped)] = x.map(CastTo::cast);
        ([real, imaginary], real_clipped | imaginary_clipped)
    }
}

/// A complex number to `bool`.
pub(in super::super) struct NonZero<S>(S);

impl<S: CastTo<Bool>> Convert for NonZero<S> {
    type Src = [S; 2];
    type Dst = Bool;

    #[inline(always)]
    fn convert(x: [S; 2], _: &Params) -> (Bool, bool) {
        (Bool(x[0].cast().0.0 | x[1].cast().0.0), false)
    }
}
