//! Floating point formats of 16 and 8 bits, by their bits.
//!
//! The 8-bit formats are those of ml_dtypes (<https://github.com/jax-ml/ml_dtypes#specifications>):
//! `fn` has no infinity and NaN is all ones, `fnuz` has no negative zero and NaN in its place, and
//! `e8m0fnu` is a power of two without sign and zero.

/// How a format encodes what is not a finite number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Special {
    /// Infinity is the highest exponent with a zero fraction; above it lie the NaNs.
    Ieee,
    /// All ones is NaN.
    Finite,
    /// The negative zero is NaN.
    NoNegativeZero,
}

/// A sign, an exponent and a fraction, in this order.
#[derive(Clone, Copy)]
struct Format {
    exponent: u32,
    fraction: u32,
    bias: i32,
    special: Special,
}

impl Format {
    const fn sign(self) -> u32 {
        1 << (self.exponent + self.fraction)
    }

    /// The first code above the finite numbers.
    const fn beyond(self) -> u32 {
        match self.special {
            Special::Ieee => self.sign() - (1 << self.fraction),
            Special::Finite => self.sign() - 1,
            Special::NoNegativeZero => self.sign(),
        }
    }

    const fn nan(self, sign: u32) -> u32 {
        match self.special {
            Special::Ieee => self.beyond() | 1 << (self.fraction - 1) | sign,
            Special::Finite => self.beyond() | sign,
            Special::NoNegativeZero => self.sign(),
        }
    }

    /// The exact value of a code.
    const fn decode(self, code: u32) -> f32 {
        let magnitude = code & (self.sign() - 1);
        let negative = code & self.sign() != 0;
        if matches!(self.special, Special::NoNegativeZero) && code == self.sign() {
            return f32::NAN;
        }
        let value = if magnitude > self.beyond()
            || magnitude == self.beyond() && !matches!(self.special, Special::Ieee)
        {
            f64::NAN
        } else if magnitude == self.beyond() {
            f64::INFINITY
        } else {
            let exponent = (magnitude >> self.fraction) as i32;
            let fraction = magnitude & ((1 << self.fraction) - 1);
            let hidden = if exponent == 0 { 0 } else { 1 << self.fraction };
            let unit =
                (if exponent == 0 { 1 } else { exponent }) - self.bias - self.fraction as i32;
            (fraction | hidden) as f64 * f64::from_bits(((unit + 1023) as u64) << 52)
        };
        (if negative { -value } else { value }) as f32
    }

    /// The nearest code, ties to the even one. What rounds beyond the largest finite number is
    /// infinity, or NaN where the format has none.
    #[inline(always)]
    fn encode(self, x: f64) -> u32 {
        let bits = x.to_bits();
        let sign = (bits >> 63) as u32 * self.sign();
        if x.is_nan() {
            return self.nan(sign);
        }
        let biased = (bits >> 52 & 0x7ff) as i32;
        let fraction = bits & ((1 << 52) - 1);
        let significand = if biased == 0 { fraction } else { fraction | 1 << 52 };
        let exponent = biased.max(1) - 1023;
        let smallest = 1 - self.bias;
        let kept = exponent.max(smallest);
        // At 63 the whole significand is below half of the last bit.
        let shift = ((52 - self.fraction as i32) + (kept - exponent)).min(63);
        let down = significand >> shift;
        let rest = significand & ((1 << shift) - 1);
        let half = 1_u64 << (shift - 1);
        let rounded = down + u64::from(rest > half || (rest == half && down & 1 == 1));
        // The hidden bit and a carry both add one to the exponent's field.
        let magnitude = (((kept - smallest) as u64) << self.fraction) + rounded;
        if magnitude >= u64::from(self.beyond()) {
            return match self.special {
                Special::Ieee => self.beyond() | sign,
                _ => self.nan(sign),
            };
        }
        let magnitude = magnitude as u32;
        match self.special {
            Special::NoNegativeZero if magnitude == 0 => 0,
            _ => magnitude | sign,
        }
    }
}

/// A format and its conversions.
pub(super) trait SmallFloat {
    /// The integer that holds the bits.
    type Bits: Copy;
    /// The exact value.
    fn decode(bits: Self::Bits) -> f32;
    /// The nearest, ties to even.
    fn encode(x: f64) -> Self::Bits;
}

macro_rules! eights {
    ($($name:ident $exponent:literal $fraction:literal $bias:literal $special:ident;)*) => {$(
        pub(super) struct $name;

        impl $name {
            const FORMAT: Format = Format {
                exponent: $exponent,
                fraction: $fraction,
                bias: $bias,
                special: Special::$special,
            };

            const VALUES: [f32; 256] = {
                let mut values = [0.0; 256];
                let mut code = 0;
                while code < 256 {
                    values[code] = Self::FORMAT.decode(code as u32);
                    code += 1;
                }
                values
            };
        }

        impl SmallFloat for $name {
            type Bits = u8;

            #[inline(always)]
            fn decode(bits: u8) -> f32 {
                static VALUES: [f32; 256] = $name::VALUES;
                VALUES[usize::from(bits)]
            }

            #[inline(always)]
            fn encode(x: f64) -> u8 {
                Self::FORMAT.encode(x) as u8
            }
        }
    )*};
}

eights! {
    E3m4 3 4 3 Ieee;
    E4m3 4 3 7 Ieee;
    E4m3b11fnuz 4 3 11 NoNegativeZero;
    E4m3fn 4 3 7 Finite;
    E4m3fnuz 4 3 8 NoNegativeZero;
    E5m2 5 2 15 Ieee;
    E5m2fnuz 5 2 16 NoNegativeZero;
}

/// `float8_e8m0fnu`: 2 to the code less 127, and NaN at 255.
pub(super) struct E8m0fnu;

impl SmallFloat for E8m0fnu {
    type Bits = u8;

    #[inline(always)]
    fn decode(bits: u8) -> f32 {
        match bits {
            255 => f32::NAN,
            0 => f32::from_bits(1 << 22),
            _ => f32::from_bits(u32::from(bits) << 23),
        }
    }

    /// Zero and what is negative are NaN. A tie goes up, as in ml_dtypes: the significand of the
    /// lower power, 1, is odd.
    #[inline(always)]
    fn encode(x: f64) -> u8 {
        if x.is_nan() || x <= 0.0 {
            return 255;
        }
        let bits = x.to_bits();
        let exponent = (bits >> 52) as i32 - 1023;
        let up = (bits >> 51 & 1) as i32;
        if exponent < -127 { 0 } else { (exponent + up + 127).min(255) as u8 }
    }
}

macro_rules! sixteens {
    ($($name:ident $half:ident $exponent:literal $fraction:literal $bias:literal;)*) => {$(
        pub(super) struct $name;

        impl SmallFloat for $name {
            type Bits = u16;

            #[inline(always)]
            fn decode(bits: u16) -> f32 {
                $half(bits)
            }

            #[inline(always)]
            fn encode(x: f64) -> u16 {
                const FORMAT: Format = Format {
                    exponent: $exponent,
                    fraction: $fraction,
                    bias: $bias,
                    special: Special::Ieee,
                };
                FORMAT.encode(x) as u16
            }
        }
    )*};
}

sixteens! {
    Float16 f16_to_f32 5 10 15;
    Bfloat16 bf16_to_f32 8 7 127;
}

#[inline(always)]
fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Without branches, so that a loop becomes vector code on any processor, and on normal numbers, as
/// a thread may flush the others to zero.
#[inline(always)]
fn f16_to_f32(bits: u16) -> f32 {
    const BIAS: u32 = (127 - 15) << 23;
    const SMALLEST_NORMAL: u32 = (127 - 14) << 23;
    let magnitude = u32::from(bits & 0x7fff) << 13;
    let subnormal = f32::from_bits(magnitude + SMALLEST_NORMAL) - f32::from_bits(SMALLEST_NORMAL);
    let normal = match bits & 0x7c00 {
        0x7c00 => magnitude | 0xff << 23,
        _ => magnitude + BIAS,
    };
    let value = if bits & 0x7c00 == 0 { subnormal.to_bits() } else { normal };
    f32::from_bits(value | u32::from(bits & 0x8000) << 16)
}

/// Rounds half to even, by the additions of an `f32` unit: see F. Giesen,
/// <https://gist.github.com/rygorous/2156668>.
#[inline(always)]
pub(super) fn f32_to_f16(x: f32) -> u16 {
    const INFINITE: u32 = 0xff << 23;
    const TOO_LARGE: u32 = (127 + 16) << 23;
    const SMALLEST_NORMAL: u32 = (127 - 14) << 23;
    // The unit of this number is the unit of a subnormal float16.
    const ALIGN: u32 = (127 - 14 + 13) << 23;
    let magnitude = x.to_bits() & 0x7fff_ffff;
    let sign = (x.to_bits() >> 16) & 0x8000;
    let special = if magnitude > INFINITE { 0x7e00 } else { 0x7c00 };
    let aligned = f32::from_bits(magnitude) + f32::from_bits(ALIGN);
    let subnormal = aligned.to_bits().wrapping_sub(ALIGN);
    let odd = magnitude >> 13 & 1;
    let normal = magnitude.wrapping_sub((127 - 15) << 23).wrapping_add(0xfff + odd) >> 13;
    let finite = if magnitude < SMALLEST_NORMAL { subnormal } else { normal };
    let value = if magnitude >= TOO_LARGE { special } else { finite };
    (value | sign) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The nearest value by search in all of them: an implementation that shares nothing with the
    /// one above. Ties go to the even code; half beyond the largest is beyond.
    fn nearest(values: &[(u32, f64)], beyond: f64, x: f64) -> Option<u32> {
        let mut best: Option<(f64, u32)> = None;
        let candidates = values.iter().copied().chain([(u32::MAX, beyond)]);
        for (code, value) in candidates {
            let distance = (value - x).abs();
            let even = |code: u32| code == u32::MAX || code & 1 == 0;
            let better = match best {
                None => true,
                Some((old, kept)) => {
                    distance < old || (distance == old && even(code) && !even(kept))
                }
            };
            if better {
                best = Some((distance, code));
            }
        }
        best.map(|(_, code)| code).filter(|code| *code != u32::MAX)
    }

    fn check_eight<F: SmallFloat<Bits = u8>>(sign: bool, infinity: Option<u8>, nan: u8) {
        let values: Vec<(u32, f64)> = (0..=127_u8)
            .map(|code| (u32::from(code), f64::from(F::decode(code))))
            .filter(|(_, value)| value.is_finite())
            .collect();
        assert!(values.windows(2).all(|pair| pair[0].1 < pair[1].1));
        let last = values.len() - 1;
        let beyond = 2.0 * values[last].1 - values[last - 1].1;
        for bits in 0..=u16::MAX {
            for shift in [0, 1 << 40] {
                // Every float16, and each a little above: ties and what is next to them.
                let x = f64::from_bits(f64::from(f16_to_f32(bits)).to_bits() + shift);
                if !x.is_finite() {
                    continue;
                }
                let negative = x.is_sign_negative();
                let expected = match nearest(&values, beyond, x.abs()) {
                    Some(0) if negative && !sign => 0,
                    Some(code) => code as u8 | u8::from(negative) << 7,
                    None => match infinity {
                        Some(infinity) => infinity | u8::from(negative) << 7,
                        None if sign => nan | u8::from(negative) << 7,
                        None => nan,
                    },
                };
                assert_eq!(F::encode(x), expected, "{x:e}");
            }
        }
        assert!(F::decode(F::encode(f64::NAN)).is_nan());
        assert_eq!(F::encode(f64::INFINITY), infinity.unwrap_or(nan));
        assert_eq!(F::encode(f64::MAX), infinity.unwrap_or(nan));
        assert_eq!(F::encode(f64::from_bits(1)), 0);
    }

    #[test]
    fn eight_bits_round_to_the_nearest_and_ties_to_even() {
        check_eight::<E3m4>(true, Some(0x70), 0x78);
        check_eight::<E4m3>(true, Some(0x78), 0x7c);
        check_eight::<E4m3fn>(true, None, 0x7f);
        check_eight::<E5m2>(true, Some(0x7c), 0x7e);
        check_eight::<E4m3b11fnuz>(false, None, 0x80);
        check_eight::<E4m3fnuz>(false, None, 0x80);
        check_eight::<E5m2fnuz>(false, None, 0x80);
    }

    fn round_trip<F: SmallFloat<Bits = u8>>() {
        for code in 0..=255 {
            let value = F::decode(code);
            if value.is_nan() {
                assert!(F::decode(F::encode(f64::from(value))).is_nan());
            } else {
                assert_eq!(F::encode(f64::from(value)), code);
            }
        }
    }

    #[test]
    fn every_code_of_eight_bits_comes_back() {
        round_trip::<E3m4>();
        round_trip::<E4m3>();
        round_trip::<E4m3fn>();
        round_trip::<E5m2>();
        round_trip::<E4m3b11fnuz>();
        round_trip::<E4m3fnuz>();
        round_trip::<E5m2fnuz>();
        round_trip::<E8m0fnu>();
    }

    /// From the tables of ml_dtypes: the largest and the smallest number of each format.
    #[test]
    fn the_ends_of_each_format_are_those_of_ml_dtypes() {
        assert_eq!((E3m4::decode(0x6f), E3m4::decode(1)), (15.5, 0.015625));
        assert_eq!((E4m3::decode(0x77), E4m3::decode(1)), (240.0, 0.001953125));
        assert_eq!((E4m3fn::decode(0x7e), E4m3fn::decode(1)), (448.0, 0.001953125));
        assert_eq!((E5m2::decode(0x7b), E5m2::decode(1)), (57344.0, 2_f32.powi(-16)));
        let b11 = (E4m3b11fnuz::decode(0x7f), E4m3b11fnuz::decode(1));
        assert_eq!(b11, (30.0, 2_f32.powi(-13)));
        assert_eq!((E4m3fnuz::decode(0x7f), E4m3fnuz::decode(1)), (240.0, 0.0009765625));
        assert_eq!((E5m2fnuz::decode(0x7f), E5m2fnuz::decode(1)), (57344.0, 2_f32.powi(-17)));
        assert_eq!(E8m0fnu::decode(254), 2.0_f32.powi(127));
        assert_eq!(E8m0fnu::decode(0), 2.0_f32.powi(-127));
    }

    #[test]
    fn a_power_of_two_has_no_zero_and_no_sign() {
        for x in
            [0.0, -0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1.5 * 2_f64.powi(127)]
        {
            assert_eq!(E8m0fnu::encode(x), 255, "{x}");
        }
        let smallest = 2_f64.powi(-127);
        let cases = [(1.4, 127), (1.5, 128), (3.0, 129), (2.9, 128), (1e-300, 0)];
        let ends = [(smallest * 0.75, 0), (smallest * 1.25, 0), (smallest * 1.5, 1)];
        for (x, code) in cases.into_iter().chain(ends) {
            assert_eq!(E8m0fnu::encode(x), code, "{x}");
        }
    }

    #[test]
    fn every_float16_decodes_as_in_the_half_crate_and_comes_back() {
        for bits in 0..=u16::MAX {
            let (ours, theirs) = (f16_to_f32(bits), half::f16::from_bits(bits).to_f32());
            assert!(ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan());
            if !ours.is_nan() {
                assert_eq!(f32_to_f16(ours), bits);
                assert_eq!(Float16::encode(f64::from(ours)), bits);
                let brain = f64::from(bf16_to_f32(bits));
                assert!(brain.is_nan() || Bfloat16::encode(brain) == bits);
            }
        }
        assert!(f16_to_f32(f32_to_f16(f32::NAN)).is_nan());
    }

    /// Every float16, and halfway to the next, and next to halfway.
    #[test]
    fn sixteen_bits_round_to_the_nearest_and_ties_to_even() {
        for bits in 0..0x7c00_u16 {
            let low = f64::from(f16_to_f32(bits));
            let high = if bits == 0x7bff { 65536.0 } else { f64::from(f16_to_f32(bits + 1)) };
            let tie = (low + high) / 2.0;
            let even = bits + (bits & 1);
            for (x, code) in [
                (tie, even),
                (tie.next_down(), bits),
                (tie.next_up(), bits + 1),
                (-tie, even | 0x8000),
            ] {
                assert_eq!(Float16::encode(x), code, "{x:e}");
            }
            let tie = tie as f32;
            assert_eq!(f32_to_f16(tie), even, "{tie:e}");
            assert_eq!(f32_to_f16(tie.next_down()), bits);
            assert_eq!(f32_to_f16(-tie.next_up()), (bits + 1) | 0x8000);
        }
    }

    #[test]
    fn bfloat16_rounds_as_in_the_half_crate() {
        for high in (0..=u16::MAX).step_by(3) {
            for low in [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff_u32] {
                let x = f32::from_bits(u32::from(high) << 16 | low);
                if !x.is_nan() {
                    let expected = half::bf16::from_f32(x).to_bits();
                    assert_eq!(Bfloat16::encode(f64::from(x)), expected, "{x:e}");
                }
            }
        }
    }
}
