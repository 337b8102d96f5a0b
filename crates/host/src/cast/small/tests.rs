//! Every format against a search for the nearest value, and against the half crate.

use super::super::element::ToOdd;
use super::*;

/// The code of the nearest value, found by a search through all values. Ties go to the even code, and the tie
/// after the largest value goes to what is beyond.
fn nearest(values: &[(u32, f64)], beyond: f64, x: f64) -> Option<u32> {
    let mut best: Option<(f64, u32)> = None;
    let candidates = values.iter().copied().chain([(u32::MAX, beyond)]);
    for (code, value) in candidates {
        let distance = (value - x).abs();
        let even = |code: u32| code == u32::MAX || code & 1 == 0;
        let better = match best {
            None => true,
            Some((old, kept)) => distance < old || (distance == old && even(code) && !even(kept)),
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
            // Every float16, and a number slightly above each: ties and their neighbours.
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
fn every_code_of_eight_bits_survives_a_round_trip() {
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
fn the_limits_of_each_format_are_those_of_ml_dtypes() {
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
fn a_power_of_two_is_neither_zero_nor_negative() {
    for x in [0.0, -0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1.5 * 2_f64.powi(127)] {
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
fn every_float16_decodes_as_in_the_half_crate_and_survives_a_round_trip() {
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

/// Every float16, the ties between them, and the neighbours of the ties.
#[test]
fn sixteen_bits_round_to_the_nearest_and_ties_to_even() {
    for bits in 0..0x7c00_u16 {
        let low = f64::from(f16_to_f32(bits));
        let high = if bits == 0x7bff { 65536.0 } else { f64::from(f16_to_f32(bits + 1)) };
        let tie = (low + high) / 2.0;
        let even = bits + (bits & 1);
        for (x, code) in
            [(tie, even), (tie.next_down(), bits), (tie.next_up(), bits + 1), (-tie, even | 0x8000)]
        {
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

/// Every upper half of an `f32`, with lower halves around the ties, its neighbours in `f64`, and what is beyond `f32`.
fn check_wide<F: SmallFloat>()
where
    F::Bits: PartialEq + std::fmt::Debug,
{
    for high in 0..=u16::MAX {
        for low in [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff_u32] {
            let narrow = f32::from_bits(u32::from(high) << 16 | low);
            let wide = f64::from(narrow);
            let (tiny, huge) = (wide * 2_f64.powi(-140), wide * 2_f64.powi(140));
            for x in [wide, wide.next_down(), wide.next_up(), tiny, huge] {
                let code = F::encode(x);
                let is_lost = x.is_finite() && !F::decode(code).is_finite();
                let odd = x.to_odd();
                let (near, _) = F::encode_f32(x as f32);
                assert!(F::is_midpoint(x as f32) || x.is_nan() || near == code, "{x:e}");
                assert!(x != wide || odd.to_bits() == narrow.to_bits() || x.is_nan());
                let (found, said) = F::encode_f32(odd);
                let both_nan = x.is_nan() && F::decode(found).is_nan();
                assert!(both_nan || found == code, "{x:e}: {found:?}, not {code:?}");
                assert_eq!(said, is_lost, "{x:e}");
            }
        }
    }
}

#[test]
fn integers_are_rounded_to_odd() {
    for shift in 0..64 {
        for near in [0_u64, 1, 2, 3, 1 << 38, (1 << 39) - 1, 1 << 39, (1 << 40) + 1, u64::MAX >> 1]
        {
            let x = (1_u64 << shift).wrapping_add(near >> (63 - shift));
            let bits = u64::BITS - x.leading_zeros();
            let cut = bits.saturating_sub(f32::MANTISSA_DIGITS);
            let kept = x >> cut | u64::from(x & ((1 << cut) - 1) != 0);
            let expected = kept as f32 * 2_f32.powi(cut as i32);
            assert_eq!(x.to_odd(), expected, "{x}");
            assert_eq!((x as u32).to_odd(), u64::from(x as u32).to_odd());
            assert_eq!(
                (x as i64).to_odd(),
                x.cast_signed().unsigned_abs().to_odd() * (x as i64).signum() as f32
            );
            assert_eq!((x as i32).to_odd(), i64::from(x as i32).to_odd());
        }
    }
}

#[test]
fn numbers_are_encoded_through_float32_as_from_float64() {
    check_wide::<Float16>();
    check_wide::<Bfloat16>();
    check_wide::<E3m4>();
    check_wide::<E4m3>();
    check_wide::<E4m3b11fnuz>();
    check_wide::<E4m3fn>();
    check_wide::<E4m3fnuz>();
    check_wide::<E5m2>();
    check_wide::<E5m2fnuz>();
    check_wide::<E8m0fnu>();
}
