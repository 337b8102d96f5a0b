//! Casts to and from small floats and complex numbers.

use super::super::small::SmallFloat;
use super::clamp::CastTo;
use super::{Bool, Convert, Params};

/// A number as an `f32`, rounded to odd: the last bit says whether anything was cut off, so rounding the result
/// to a smaller format is the same as rounding the original once.
pub(in super::super) trait ToOdd: Copy {
    fn to_odd(self) -> f32;
}

macro_rules! to_odd {
    ($($src:ident |$x:ident| $odd:expr;)*) => {$(
        impl ToOdd for $src {
            #[inline(always)]
            fn to_odd(self) -> f32 {
                let $x = self;
                f64_to_odd($odd)
            }
        }
    )*};
}

to_odd! {
    u32 |x| f64::from(x);
    i32 |x| f64::from(x);
    u64 |x| u64_to_odd(x);
    i64 |x| i64_to_odd(x);
    f64 |x| x;
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
        false => f32::NAN.to_bits() | (magnitude >> (FRACTION - 23)) as u32 & 0x3f_ffff,
    };
    f32::from_bits(bits | (x.to_bits() >> 32) as u32 & 1 << 31)
}

/// A number to `f32`, rounded to odd, on the way to a small float.
pub(in super::super) struct Odd<S>(S);

impl<S: ToOdd> Convert for Odd<S> {
    type Src = S;
    type Dst = f32;

    #[inline(always)]
    fn convert(x: S, _: &Params) -> (f32, bool) {
        (x.to_odd(), false)
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

/// An `f32` to a small float, rounded half to even. With `NEAR`, the number was rounded to that `f32` before. Only one that is
/// now in the middle of two values can have another result than by a single rounding; it is counted as one that loses a
/// fraction.
pub(in super::super) struct EncodeF32<F, const NEAR: bool>(F);

impl<F: SmallFloat, const NEAR: bool> Convert for EncodeF32<F, NEAR> {
    type Src = f32;
    type Dst = F::Bits;
    const HAS_INSTRUCTION: bool = F::HAS_INSTRUCTION;

    #[inline(always)]
    fn convert(x: f32, _: &Params) -> (F::Bits, bool) {
        F::encode_f32(x)
    }

    #[inline(always)]
    unsafe fn by_instruction(dst: *mut F::Bits, src: *const f32, len: usize) {
        // SAFETY: as the caller promises.
        unsafe { F::encode_by_instruction(dst, src, len) }
    }

    #[inline(always)]
    fn loses_fraction(x: f32) -> bool {
        NEAR && F::is_midpoint(x)
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
