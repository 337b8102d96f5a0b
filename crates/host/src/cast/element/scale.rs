//! Casts of floating point numbers to integers that scale them.

use super::clamp::FromRounded;
use super::{Convert, Params};

/// A number in [0, 1] or [-1, 1] times the largest integer. The exact product is rounded once.
pub(in super::super) trait FromUnit<F>: Copy {
    fn from_unit(x: F) -> (Self, bool);
}

/// The exact `x * max`, rounded half to even. As `max` is at most 2^32, the rounded product can only be wrong
/// about a tie, and its error tells which side of the tie the exact product is on.
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

/// The exact `|x| * max`, rounded half to even. It saturates at 2^127; NaN is zero.
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
        // 2^127, of an infinity or a huge number, wraps to i128::MIN.
        let product = if product < 0 { i128::MAX } else { product };
        let signed = if x < 0.0 { -product } else { product };
        let kept = signed.clamp(i128::from(i64::MIN), i128::from(i64::MAX));
        (kept as i64, kept != signed || x.is_nan())
    }
}

/// The cast with [`Scaling::Unit`](super::super::Scaling).
pub(in super::super) struct Unit<S, D>(S, D);

impl<S: Copy, D: FromUnit<S>> Convert for Unit<S, D> {
    type Src = S;
    type Dst = D;

    #[inline(always)]
    fn convert(x: S, _: &Params) -> (D, bool) {
        D::from_unit(x)
    }
}

/// A part of a range of numbers, as the same part of the integer's range. What is below 0 becomes the smallest integer,
/// what is above `range` the largest, and NaN is zero, as is the part 0 of a range that a thread flushes to zero.
pub(in super::super) trait FromPart: Copy {
    /// The same as [`Convert::IS_QUICK`].
    const IS_QUICK: bool = false;

    fn from_part(part: f64, range: f64) -> Self;

    /// The same as [`Convert::quick`].
    #[inline(always)]
    fn quick_part(part: f64, params: &Params) -> (Self, u32) {
        (Self::from_part(part, params.range), 0)
    }
}

/// The sum with a number of less than 33 bits is rounded half to even, and its lowest bits are the rounded number.
const ROUNDER: f64 = 1.5 * (1_u64 << 52) as f64;

macro_rules! from_part {
    ($($int:ident $bits:ident)*) => {$(
        impl FromPart for $int {
            const IS_QUICK: bool = $int::BITS <= 16;

            #[inline(always)]
            fn from_part(part: f64, range: f64) -> $int {
                const SPAN: f64 = $int::MAX as f64 - $int::MIN as f64;
                if range == 0.0 {
                    return $int::from_rounded(part / range).0;
                }
                // NaN fails the comparison.
                let inside = if part > 0.0 { part } else { 0.0 };
                let inside = if inside < range { inside } else { range };
                let rounded = inside / range * SPAN + ROUNDER;
                let int = (rounded.to_bits() as $bits as $int).wrapping_add($int::MIN);
                if $int::MIN != 0 && part.is_nan() { 0 } else { int }
            }

            /// The low bits of the sum are the position in the integer's range plus a half, rounded to a multiple of
            /// 2^-`FRACTION`. Those of the fraction are zero at a tie, for an infinity, and for NaN if its payload
            /// has no low bits.
            ///
            /// Elsewhere, the position before this rounding is at least 2^-(`FRACTION` + 1) away from every tie.
            /// That of `from_part` differs by less than 2^(`BITS` - 50): both have three roundings, of 2^-53
            /// relative to at most 2^`BITS`. So both are between the same ties.
            #[inline(always)]
            fn quick_part(part: f64, params: &Params) -> ($int, u32) {
                const SPAN: f64 = $int::MAX as f64 - $int::MIN as f64;
                const FRACTION: u32 = 32 - $int::BITS;
                const ROUNDER: f64 = 1.5 * (1_u64 << (52 - FRACTION)) as f64 + 0.5;
                let sum = part.mul_add(params.inverse * SPAN, ROUNDER).to_bits() as u32;
                let int = $int::MIN.wrapping_add((sum >> FRACTION) as $int);
                (int, sum & ((1 << FRACTION) - 1))
            }
        }
    )*};
}

from_part! { u8 u8 i8 u8 u16 u16 i16 u16 u32 u32 i32 u32 }

impl FromPart for u64 {
    #[inline(always)]
    fn from_part(part: f64, range: f64) -> u64 {
        u64::from_unit(part / range).0
    }
}

impl FromPart for i64 {
    #[inline(always)]
    fn from_part(part: f64, range: f64) -> i64 {
        let position = part / range;
        if position.is_nan() {
            return 0;
        }
        (u64::from_unit(position).0 ^ 1 << 63) as i64
    }
}

/// The cast with [`Scaling::Stretch`](super::super::Scaling).
pub(in super::super) struct Stretch<S, D>(S, D);

impl<S: Copy + Into<f64>, D: FromPart> Convert for Stretch<S, D> {
    type Src = S;
    type Dst = D;
    const IS_QUICK: bool = D::IS_QUICK;

    #[inline(always)]
    fn convert(x: S, params: &Params) -> (D, bool) {
        let x: f64 = x.into();
        (D::from_part(x * params.scale - params.min, params.range), !x.is_finite())
    }

    #[inline(always)]
    fn quick(x: S, params: &Params) -> (D, u32) {
        let x: f64 = x.into();
        let part = if size_of::<S>() > 4 {
            let part = x.mul_add(params.scale, -params.min);
            // NaN fails the comparison. Its payload may have low bits, unless it was an `f32`.
            if part < f64::INFINITY { part } else { f64::INFINITY }
        } else {
            // No difference of two `f32` needs the scale.
            x - params.min
        };
        D::quick_part(part, params)
    }
}
