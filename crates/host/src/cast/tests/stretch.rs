//! Stretches close to ties and at the ends of a float's range, where the quick loop is in doubt.

use super::*;

const INTS: [DType; 4] = [DType::Uint8, DType::Int8, DType::Uint16, DType::Int16];

/// The ends of arrays: ties among whole numbers, no offset, a large one, subnormal numbers, and the largest ones.
fn ends(src: DType) -> Vec<(f64, f64)> {
    let (tiny, huge) = (f64::from(f32::from_bits(1)), f64::from(f32::MAX));
    let mut ends = vec![(0.0, 510.0), (-7.0, 131_063.0), (0.0, 1.0), (-0.1, 0.3), (1e-30, 1.0)];
    ends.extend([(1e8, 1e8 + 64.0), (-1e8 - 64.0, -1e8), (2.0, 2.0), (0.0, tiny), (-tiny, tiny)]);
    ends.extend([(0.0, 300.0 * tiny), (-1e-40, 1e-36), (-huge, huge), (0.9 * huge, huge)]);
    if src == DType::Float64 {
        let (tiny, huge) = (f64::from_bits(1), f64::MAX);
        ends.extend([(0.0, 300.0 * tiny), (0.0, 1e-305), (0.0, 1e-303), (-1e-310, 1e-300)]);
        ends.extend([
            (-huge, huge),
            (-1e308, 1e308),
            (0.0, huge),
            (0.0, 1e308),
            (1.0, 1.0 + 1e-12),
        ]);
    }
    ends
}

fn bytes_of(src: DType, values: impl IntoIterator<Item = f64>) -> Vec<u8> {
    let narrow = |x: f64| (x as f32).to_ne_bytes().to_vec();
    let wide = |x: f64| x.to_ne_bytes().to_vec();
    let bytes = |x| if src == DType::Float32 { narrow(x) } else { wide(x) };
    values.into_iter().flat_map(bytes).collect()
}

/// Both ends, and numbers at this distance from ties among a few hundred results.
fn near_ties(dst: DType, (min, max): (f64, f64), distance: f64) -> Vec<f64> {
    let (low, high) = limits(dst).unwrap();
    let span = high - low;
    let tie = |i: i128| (i * 7919 % span) as f64 + 0.5;
    let value = |i| {
        let part = (tie(i) + distance) / span as f64;
        (min * (1.0 - part) + max * part).clamp(min, max)
    };
    [min, max].into_iter().chain((0..600).map(value)).collect()
}

#[test]
fn a_stretch_rounds_as_its_formula_close_to_ties() {
    for src in [DType::Float32, DType::Float64] {
        for dst in INTS {
            let unit = 2_f64.powi(dst.size() as i32 * 8 - 32);
            for ends in ends(src) {
                for step in -6..=6 {
                    let near = near_ties(dst, ends, f64::from(step) * unit / 2.0);
                    check(dst, src, &bytes_of(src, near), Scaling::Stretch);
                }
            }
        }
    }
}

#[test]
fn a_stretch_rounds_as_its_formula_at_ties_and_next_to_them() {
    for dst in INTS {
        for ends in ends(DType::Float32) {
            for step in -3..=3 {
                let moved = |x: f64| match x == ends.0 || x == ends.1 {
                    true => x as f32,
                    false => f32::from_bits((x as f32).to_bits().wrapping_add_signed(step)),
                };
                let inside = |x: f64| x.clamp(ends.0, ends.1);
                let near = near_ties(dst, ends, 0.0).into_iter().map(|x| inside(moved(x).into()));
                check(dst, DType::Float32, &bytes_of(DType::Float32, near), Scaling::Stretch);
            }
        }
    }
}

#[test]
fn a_stretch_finds_the_ends_at_any_position() {
    for src in [DType::Float32, DType::Float64] {
        for at in 0..70 {
            let ends = |i: usize| match i {
                _ if i == at => -3.0,
                _ if i == (at + 9) % 70 => 7.0,
                _ => [f64::NAN, f64::INFINITY, -f64::INFINITY, 0.1, 5.0][i % 5],
            };
            check(DType::Int16, src, &bytes_of(src, (0..70).map(ends)), Scaling::Stretch);
        }
    }
}

#[test]
fn a_stretch_counts_special_values_in_any_chunk() {
    let plain = |i: u32| f64::from(i.wrapping_mul(0x9e37_79b1) >> 8);
    let quiet = |payload: u64| f64::from_bits(0x7ff8 << 48 | payload);
    let specials = [f64::INFINITY, -f64::INFINITY, quiet(0), -quiet(0), quiet(1 << 29)];
    let payloads =
        [quiet(1), quiet(0x1234_5678), -quiet(u64::MAX >> 13), f64::from_bits(0x7ff0 << 48 | 1)];
    for src in [DType::Float32, DType::Float64] {
        for dst in INTS {
            for special in specials.into_iter().chain(payloads) {
                for at in [0, 100, 255, 256, 700, 2999] {
                    let value = |i| if i == at { special } else { plain(i) };
                    check(dst, src, &bytes_of(src, (0..3000).map(value)), Scaling::Stretch);
                }
            }
        }
    }
}

#[test]
fn a_stretch_is_the_same_at_any_address_and_length() {
    for src in [DType::Float32, DType::Float64] {
        for dst in INTS {
            for len in [1, 255, 256, 257, 511, 512, 513, 5000] {
                let values = (0..len as u32).map(|i| f64::from(i.wrapping_mul(0x9e37_79b1)));
                let bytes = bytes_of(src, values);
                check(dst, src, &bytes, Scaling::Stretch);
                let (expected, report) = run(dst, src, &bytes, Scaling::Stretch, 1);
                let part = [&[0][..], &bytes].concat();
                let mut out = vec![0xee; 3 + expected.len() + 1];
                // SAFETY: both hold `len` elements behind a misalignment.
                let found = unsafe {
                    let (to, from) = (out.as_mut_ptr().add(3), part.as_ptr().add(1));
                    cast(to, dst, from, src, len, Scaling::Stretch, 1).unwrap()
                };
                assert!(out[3..].strip_suffix(&[0xee]) == Some(&expected), "{src} -> {dst}, {len}");
                assert_eq!(found, report);
            }
        }
    }
}

#[test]
fn a_stretch_that_bypasses_the_caches_is_the_same() {
    let (src, dst) = (DType::Float32, DType::Uint16);
    let len = STREAM_MIN / 2 + 1001;
    // Parts with ties, and parts without.
    let value = |i: usize| (i * 7919 % 4001) & if i & 4096 == 0 { !0 } else { !31 };
    let results: Vec<u8> = (0..=4000)
        .map(|x| expected(Number::Float(x.into()), dst, Scaling::Stretch, (0.0, 4000.0)))
        .flat_map(|(number, _)| match number {
            Number::Int(int) => (int as u16).to_ne_bytes(),
            Number::Float(_) => unreachable!(),
        })
        .collect();
    let bytes = bytes_of(src, (0..len).map(|i| value(i) as f64));
    for threads in [1, 2] {
        let (out, report) = run(dst, src, &bytes, Scaling::Stretch, threads);
        let is_expected = |(i, out): (usize, &[u8])| *out == results[2 * value(i)..][..2];
        assert!(out.chunks(2).enumerate().all(is_expected));
        assert_eq!(report, CastReport::default());
    }
}
