//! Every cast against a reference that computes with numbers instead of bits.

mod reference;
mod stretch;

use half::f16;
use proptest::prelude::*;

use self::reference::*;
use super::pass::{Goal, Pass};
use super::plan::CastPlan;
use super::*;
use crate::cache::STREAM_MIN;
use crate::copy::{self, ItemBytes};
use crate::dtype::Kind;
use crate::walk::{Pointers, StridedArray, Walk};

const SCALINGS: [Scaling; 3] = [Scaling::Clamp, Scaling::Unit, Scaling::Stretch];

/// Casts `len` contiguous elements.
///
/// # Safety
///
/// The conditions of [`cast_strided`].
unsafe fn cast(
    dst: *mut u8,
    dst_dtype: DType,
    src: *const u8,
    src_dtype: DType,
    len: usize,
    scaling: Scaling,
    threads: usize,
) -> Result<CastReport, CastError> {
    let (shape, strides) = ([len], [src_dtype.size() as isize]);
    let (data, dtype) = (src, src_dtype);
    let src = StridedArray { data, shape: &shape, strides: &strides, dtype, swapped: false };
    let cast = Cast { dtype: dst_dtype, scaling, threads: Threads::AtMost(threads) };
    // SAFETY: the one axis is contiguous, and source and target hold the elements.
    unsafe { cast_strided(dst, src, cast) }
}

fn run(
    dst: DType,
    src: DType,
    bytes: &[u8],
    scaling: Scaling,
    threads: usize,
) -> (Vec<u8>, CastReport) {
    let len = bytes.len() / src.size();
    let mut out = vec![0xee; len * dst.size() + 1];
    // SAFETY: both hold `len` elements.
    let report =
        unsafe { cast(out.as_mut_ptr(), dst, bytes.as_ptr(), src, len, scaling, threads).unwrap() };
    assert_eq!(out.pop(), Some(0xee));
    (out, report)
}

/// Casts and compares every element and the count.
fn check(dst: DType, src: DType, bytes: &[u8], scaling: Scaling) {
    let numbers: Vec<Number> =
        bytes.chunks(src.size()).map(|bytes| Number::read(src, bytes)).collect();
    let finite = || numbers.iter().map(|x| x.float()).filter(|x| x.is_finite());
    let ends = (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
    let (out, report) = run(dst, src, bytes, scaling, 1);
    let mut count = CastReport::default();
    for (x, bytes) in numbers.iter().zip(out.chunks(dst.size())) {
        let (number, clip) = expected(*x, dst, scaling, ends);
        let overflows = dst.kind() == Kind::Float
            && x.float().is_finite()
            && !read_float(dst, bytes).is_finite();
        count.clipped += u64::from(clip || overflows);
        count.fractions += u64::from(has_fraction(*x, dst, scaling, ends));
        let same = match (number, Number::read(dst, bytes)) {
            (Number::Int(expected), Number::Int(read)) => expected == read,
            _ => same_float(dst, bytes, *x),
        };
        assert!(same, "{src} {x:?} -> {dst} {scaling:?}: {bytes:?}, not {number:?}");
    }
    assert_eq!(report, count, "{src} -> {dst} {scaling:?}");
}

#[test]
fn every_pair_is_exact_on_special_values() {
    for src in reals() {
        let bytes = specials(src);
        for dst in reals() {
            for scaling in SCALINGS {
                if src.kind() != Kind::Float && scaling != Scaling::Clamp {
                    continue;
                }
                check(dst, src, &bytes, scaling);
            }
        }
    }
}

/// Casts of a tile in each order of its axes, to a place in a larger array and to one in C order.
#[test]
fn a_place_between_others_gets_the_same_elements() {
    let (shape, floats) = ([3, 70, 40], (0..3 * 70 * 40).map(|i| i as f32 / 40.0));
    let floats: Vec<f32> = floats.collect();
    for (strides, dst) in [
        ([11200, 160, 4], DType::Uint8),
        ([4, 12, 840], DType::Float64),
        ([11200, 4, 280], DType::Bfloat16),
    ] {
        let (data, dtype) = (floats.as_ptr().cast(), DType::Float32);
        let src = StridedArray { data, shape: &shape, strides: &strides, dtype, swapped: false };
        let cast = Cast { dtype: dst, scaling: Scaling::Stretch, threads: Threads::ONE };
        let (size, steps) = (dst.size(), [80 * 50, 50, 1]);
        let (mut tight, mut spaced) =
            (vec![0; floats.len() * size], vec![0xee; 3 * 80 * 50 * size]);
        // SAFETY: the memory has all elements, and both targets have room for them.
        let reports = unsafe {
            (
                cast_strided(tight.as_mut_ptr(), src, cast).unwrap(),
                cast_into(spaced.as_mut_ptr(), &steps, src, cast).unwrap(),
            )
        };
        assert_eq!(reports.0, reports.1);
        let rows = |z: usize| (0..70).map(move |y| (z * 80 + y) * 50 * size);
        for (row, at) in tight.chunks(40 * size).zip((0..3).flat_map(rows)) {
            assert!(&spaced[at..][..40 * size] == row, "{dst}");
            assert!(spaced[at + 40 * size..][..10 * size].iter().all(|byte| *byte == 0xee));
        }
    }
}

#[test]
fn the_scaling_does_not_affect_integer_sources() {
    for (src, dst) in [(DType::Int32, DType::Uint16), (DType::Bool, DType::Uint8)] {
        let bytes = specials(src);
        for scaling in SCALINGS {
            assert_eq!(run(dst, src, &bytes, scaling, 1), run(dst, src, &bytes, Scaling::Clamp, 1));
        }
    }
}

#[test]
fn the_position_of_an_element_does_not_matter() {
    for src in DType::ALL.iter().copied() {
        let size = src.size();
        let bytes: Vec<u8> = match is_real(src) {
            true => specials(src),
            false => special_floats().into_iter().flat_map(f64::to_ne_bytes).collect(),
        };
        let bytes = &bytes[..bytes.len().min(400 * size) / size * size];
        for dst in DType::ALL.iter().copied() {
            if !is_real(src) && is_real(dst) && dst != DType::Bool {
                continue;
            }
            let (whole, _) = run(dst, src, bytes, Scaling::Unit, 1);
            for len in 0..=70 {
                let first = (len * 7) % 29;
                let part = [&[0][..], &bytes[first * size..][..len * size]].concat();
                let mut out = vec![0xee; 3 + len * dst.size() + 1];
                // SAFETY: both hold `len` elements behind a misalignment.
                unsafe {
                    let (to, from) = (out.as_mut_ptr().add(3), part.as_ptr().add(1));
                    cast(to, dst, from, src, len, Scaling::Unit, 1).unwrap();
                }
                let expected = &whole[first * dst.size()..][..len * dst.size()];
                assert_eq!(&out[3..3 + expected.len()], expected, "{src} -> {dst}, {len}");
                assert_eq!(out.last(), Some(&0xee));
            }
        }
    }
}

#[test]
fn threads_do_not_change_the_result() {
    let mut state = 1_u64;
    let mut random = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 32) as u32
    };
    let bytes: Vec<u8> = (0..1_500_001).flat_map(|_| random().to_ne_bytes()).collect();
    for dst in [DType::Uint16, DType::Int64, DType::Float16, DType::Complex64] {
        for scaling in SCALINGS {
            let one = run(dst, DType::Float32, &bytes, scaling, 1);
            for threads in [0, 2, 3, 5] {
                assert!(one == run(dst, DType::Float32, &bytes, scaling, threads));
            }
        }
    }
}

/// An integer after a cast to a float and back.
fn there_and_back(x: i128, float: DType) -> i128 {
    match float {
        DType::Float16 => f16::from_f64(x as f64).to_f64() as i128,
        DType::Float32 | DType::Complex64 => x as f32 as i128,
        DType::Float64 | DType::Complex128 => x as f64 as i128,
        _ => x,
    }
}

#[test]
fn integers_that_a_cast_to_floats_rounds_are_counted_in_any_layout() {
    let floats = [DType::Float16, DType::Float32, DType::Float64, DType::Complex64];
    let others = [DType::Complex128, DType::Uint8, DType::Int16, DType::Bool];
    for src in reals() {
        let size = src.size();
        let mut bytes = specials(src);
        for dst in floats.into_iter().chain(others) {
            // The largest uint16 is no finite float16.
            if dst == DType::Float16 && ![DType::Uint8, DType::Int8, DType::Int16].contains(&src) {
                continue;
            }
            let changes = |bytes: &[u8]| match Number::read(src, bytes) {
                Number::Int(x) => there_and_back(x, dst) != x,
                Number::Float(_) => false,
            };
            let expected = bytes.chunks(size).filter(|x| changes(x)).count() as u64;
            let shape = [bytes.len() / size];
            for (strides, threads) in [([size as isize], 1), ([-(size as isize)], 3)] {
                for swapped in [false, true] {
                    if swapped {
                        bytes.chunks_mut(size).for_each(<[u8]>::reverse);
                    }
                    let first = if strides[0] > 0 { 0 } else { bytes.len() - size };
                    let data = bytes[first..].as_ptr();
                    let (shape, strides) = (&shape[..], &strides[..]);
                    let src = StridedArray { data, shape, strides, dtype: src, swapped };
                    // SAFETY: the strides stay inside the bytes.
                    let found =
                        unsafe { count_rounded(src, dst, Threads::AtMost(threads)) }.unwrap();
                    assert_eq!(found, expected, "{} -> {dst}", src.dtype);
                    if swapped {
                        bytes.chunks_mut(size).for_each(<[u8]>::reverse);
                    }
                }
            }
        }
    }
}

#[test]
fn the_significant_bits_of_a_float_are_those_that_it_keeps() {
    for dtype in DType::ALL.iter().copied() {
        // The largest number of this one is 15.5.
        if dtype.kind() != Kind::Float || dtype == DType::Float8E3m4 {
            continue;
        }
        let bits = dtype.significand();
        for (kept, number) in [(true, (1_u64 << bits) - 1), (false, (1_u64 << bits) + 1)] {
            let (out, _) = run(dtype, DType::Uint64, &number.to_ne_bytes(), Scaling::Clamp, 1);
            assert_eq!(read_float(dtype, &out) as u64 == number, kept, "{dtype}");
        }
    }
}

#[test]
fn a_result_that_bypasses_the_caches_is_the_same() {
    let len = STREAM_MIN / 8 + 1001;
    let bytes: Vec<u8> = (0..len as u32)
        .flat_map(|i| f32::from_bits(i.wrapping_mul(0x9e37_79b1)).to_ne_bytes())
        .collect();
    let (src, dst) = (DType::Float32, DType::Int64);
    let parts: Vec<(Vec<u8>, CastReport)> =
        bytes.chunks(4 << 20).map(|part| run(dst, src, part, Scaling::Clamp, 1)).collect();
    let (expected, reports): (Vec<Vec<u8>>, Vec<CastReport>) = parts.into_iter().unzip();
    let (expected, mut counted) = (expected.concat(), CastReport::default());
    for part in reports {
        counted.clipped += part.clipped;
        counted.fractions += part.fractions;
    }
    let mut buffer = crate::buffer::HostBuffer::new(8 * len + 64).unwrap();
    // From the start of a line, from inside of one, and unaligned.
    for shift in [0, 24, 3] {
        for threads in [1, 2] {
            // SAFETY: the buffer has room for the elements behind the shift.
            let (written, report) = unsafe {
                let to = buffer.as_mut_ptr().add(shift);
                let from = bytes.as_ptr();
                let report = cast(to, dst, from, src, len, Scaling::Clamp, threads).unwrap();
                (std::slice::from_raw_parts(to, 8 * len), report)
            };
            assert!(written == expected, "shift {shift}");
            assert_eq!(report, counted);
        }
    }
}

fn cast_one<S: Copy, D: Copy + Default>(
    src: DType,
    x: S,
    dst: DType,
    scaling: Scaling,
) -> (D, u64) {
    let mut out = D::default();
    assert_eq!((size_of::<S>(), size_of::<D>()), (src.size(), dst.size()));
    // SAFETY: one element of each type.
    let report = unsafe {
        cast((&raw mut out).cast(), dst, (&raw const x).cast(), src, 1, scaling, 1).unwrap()
    };
    (out, report.clipped)
}

#[test]
fn the_limits_of_the_integers_are_exact() {
    use DType::*;
    let clamp = Scaling::Clamp;
    assert_eq!(cast_one(Float32, 4294967296.0_f32, Uint32, clamp), (u32::MAX, 1));
    assert_eq!(cast_one(Float32, 4294967040.0_f32, Uint32, clamp), (4294967040_u32, 0));
    assert_eq!(cast_one(Float32, 2_f32.powi(63), Int64, clamp), (i64::MAX, 1));
    assert_eq!(cast_one(Float32, -2_f32.powi(63), Int64, clamp), (i64::MIN, 0));
    assert_eq!(cast_one(Float64, 2_f64.powi(64), Uint64, clamp), (u64::MAX, 1));
    assert_eq!(cast_one(Float64, -0.5_f64, Uint8, clamp), (0_u8, 0));
    assert_eq!(cast_one(Float32, 65535.5_f32, Uint16, clamp), (u16::MAX, 1));
    assert_eq!(cast_one(Float32, 65535.49_f32, Uint16, clamp), (u16::MAX, 0));
    assert_eq!(cast_one(Float32, f32::NAN, Int8, clamp), (0_i8, 1));
    assert_eq!(cast_one(Float32, f32::NEG_INFINITY, Int32, clamp), (i32::MIN, 1));
    for (x, max) in [(1.0_f64, i64::MAX), (-1.0, -i64::MAX)] {
        assert_eq!(cast_one(Float64, x, Int64, Scaling::Unit), (max, 0));
        assert_eq!(cast_one(Float32, x as f32, Int64, Scaling::Unit), (max, 0));
    }
    assert_eq!(cast_one(Float64, 1.0_f64, Uint64, Scaling::Unit), (u64::MAX, 0));
    assert_eq!(cast_one(Float32, 1.0_f32, Uint32, Scaling::Unit), (u32::MAX, 0));
    assert_eq!(cast_one(Float32, 0.5_f32, Uint8, Scaling::Unit), (128_u8, 0));
    assert_eq!(cast_one(Float64, 0.5_f64, Uint64, Scaling::Unit), (1_u64 << 63, 0));
}

#[test]
fn a_large_integer_is_rounded_once() {
    let tie = (1_u64 << 63) + (1 << 55);
    for (x, bits) in [(tie, 0x5f00_u16), (tie + 1, 0x5f01), (tie - 1, 0x5f00)] {
        let expected = (bits, 0);
        assert_eq!(cast_one(DType::Uint64, x, DType::Bfloat16, Scaling::Clamp), expected, "{x}");
    }
    let tie = (1_u64 << 63) + (1 << 39);
    let expected = f32::from_bits(0x5f00_0001);
    assert_eq!(cast_one(DType::Uint64, tie + 1, DType::Float32, Scaling::Clamp), (expected, 0));
}

/// Numbers that round to the middle of two values, and numbers that are it, among others in several blocks.
#[test]
fn a_number_that_becomes_the_middle_of_two_is_rounded_once() {
    use DType::*;
    for dst in [Float16, Bfloat16, Float8E4m3fn, Float8E5m2fnuz] {
        let values: Vec<f64> = (0..1_u16 << (8 * dst.size() - 1))
            .map(|code| read_float(dst, &code.to_ne_bytes()[..dst.size()]))
            .filter(|value| value.is_finite())
            .collect();
        let middles = values.windows(2).map(|pair| pair[0].midpoint(pair[1])).step_by(7);
        let near = |x: f64| [1.1, x, x.next_down(), x.next_up(), -x.next_up(), x * 1e9, f64::MAX];
        let floats: Vec<u8> = middles.clone().flat_map(near).flat_map(f64::to_ne_bytes).collect();
        check(dst, Float64, &floats, Scaling::Clamp);
        let large = middles
            .map(|x| (x * 2_f64.powi(47)) as i64)
            .flat_map(|x| [-1, 0, 1].map(|more| x.saturating_add(more)));
        check(dst, Int64, &large.flat_map(i64::to_ne_bytes).collect::<Vec<u8>>(), Scaling::Clamp);
        for (seven, middle) in [(0.0, 0.0), (7.0, 0.0), (7.0, values[9].midpoint(values[10]))] {
            // None, a block, and a part of one with doubts.
            let bytes: Vec<u8> = (0..5000)
                .map(|i| if i == 3001 { middle * (1.0 + 1e-15) } else { seven })
                .flat_map(f64::to_ne_bytes)
                .collect();
            check(dst, Float64, &bytes, Scaling::Clamp);
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_thread_that_flushes_subnormal_numbers_casts_them_to_bfloat16() {
    use DType::*;
    let tiny = 2_f64.powi(-130) * 1.125;
    let flushed = std::thread::spawn(move || {
        let (mut control, code) = (0_u32, u32::from(1_u16 << 3 | 1));
        // SAFETY: the register is that of this thread, which ends, and it flushes subnormal numbers to zero.
        unsafe {
            std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut control);
            control |= 0x8040;
            std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const control);
        }
        (cast_one(Float64, tiny, Bfloat16, Scaling::Clamp), (code as u16, 0))
    });
    let (found, expected): ((u16, u64), (u16, u64)) = flushed.join().unwrap();
    assert_eq!(found, expected);
}

fn stretch<D: Copy>(values: &[f64], dst: DType) -> Vec<D> {
    let mut out = Vec::with_capacity(values.len());
    let src = values.as_ptr().cast();
    // SAFETY: both hold as many elements, and all of them are written.
    unsafe {
        let to = out.as_mut_ptr() as *mut u8;
        cast(to, dst, src, DType::Float64, values.len(), Scaling::Stretch, 1).unwrap();
        out.set_len(values.len());
    }
    out
}

#[test]
fn a_stretch_reaches_both_limits_and_ignores_special_values() {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let values = [nan, -3.0, inf, 0.1, -inf, 7.0];
    let ints: Vec<i16> = stretch(&values, DType::Int16);
    let plain: Vec<i16> = stretch(&[-3.0, 0.1, 7.0], DType::Int16);
    assert_eq!(ints, [0, i16::MIN, i16::MAX, plain[1], i16::MIN, i16::MAX]);
    assert_eq!(stretch::<u64>(&[-1e308, 1e308], DType::Uint64), [0, u64::MAX]);
    assert_eq!(stretch::<i64>(&[0.1, 0.3, 0.2], DType::Int64)[..2], [i64::MIN, i64::MAX]);
    assert_eq!(stretch::<u8>(&[0.0, 5e-324], DType::Uint8), [0, 255]);
    assert_eq!(stretch::<i8>(&[4.6, 4.6, inf, nan], DType::Int8), [5, 5, 127, 0]);
    assert_eq!(stretch::<u8>(&[300.0, 300.0, -inf], DType::Uint8), [255, 255, 0]);
    assert_eq!(stretch::<u8>(&[nan, -inf, inf], DType::Uint8), [0, 0, 255]);
    assert!(stretch::<u8>(&[], DType::Uint8).is_empty());
}

#[test]
fn a_complex_array_is_not_cast_to_a_real_one() {
    for dst in reals().filter(|dtype| *dtype != DType::Bool) {
        let (mut out, x) = ([0_u8; 8], [1.0_f32, 0.0]);
        let (to, from) = (out.as_mut_ptr(), x.as_ptr().cast());
        // SAFETY: one element of each type.
        let result = unsafe { cast(to, dst, from, DType::Complex64, 1, Scaling::Clamp, 1) };
        assert_eq!(result, Err(CastError::Complex { from: DType::Complex64, to: dst }));
    }
}

#[test]
fn the_parts_of_complex_numbers_are_cast_separately() {
    use DType::*;
    let clamp = Scaling::Clamp;
    let z = [0.1_f64, -1e300];
    let narrow: ([f32; 2], u64) = ([0.1, f32::NEG_INFINITY], 1);
    assert_eq!(cast_one(Complex128, z, Complex64, clamp), narrow);
    assert_eq!(cast_one(Complex64, [0.5_f32, 2.0], Complex128, clamp), ([0.5_f64, 2.0], 0));
    assert_eq!(cast_one(Int64, -3_i64, Complex128, clamp), ([-3.0_f64, 0.0], 0));
    assert_eq!(cast_one(Float16, f16::from_f32(1.5), Complex64, clamp), ([1.5_f32, 0.0], 0));
    assert_eq!(cast_one(Complex64, [0.0_f32, 1.0], Bool, clamp), (1_u8, 0));
    assert_eq!(cast_one(Complex64, [0.0_f32, -0.0], Bool, clamp), (0_u8, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn random_bits_are_cast_exactly(
        words in proptest::collection::vec(any::<u64>(), 0..40),
        unit in proptest::collection::vec(-1.2_f64..1.2, 0..40),
        scaling in proptest::sample::select(SCALINGS.to_vec()),
    ) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let wide: Vec<u8> = unit.iter().flat_map(|x| x.to_ne_bytes()).collect();
        let narrow: Vec<u8> = unit.iter().flat_map(|x| (*x as f32).to_ne_bytes()).collect();
        for dst in reals() {
            check(dst, DType::Float64, &wide, scaling);
            check(dst, DType::Float32, &narrow, scaling);
            for src in reals() {
                if src.kind() == Kind::Float || scaling == Scaling::Clamp {
                    check(dst, src, &bytes, scaling);
                }
            }
        }
    }

    #[test]
    fn a_strided_cast_is_a_copy_and_a_cast(
        axes in proptest::collection::vec((0_usize..45, -40_isize..40), 0..4),
        src in proptest::sample::select(DType::ALL.to_vec()),
        dst in proptest::sample::select(DType::ALL.to_vec()),
        scaling in proptest::sample::select(SCALINGS.to_vec()),
        swapped in any::<bool>(),
    ) {
        let (shape, strides): (Vec<usize>, Vec<isize>) = axes.into_iter().unzip();
        strided(&shape, &strides, src, dst, scaling, swapped);
    }

    #[test]
    fn a_transposed_cast_is_a_copy_and_a_cast(
        (rows, cols, depth) in (1_usize..90, 1_usize..90, 1_usize..3),
        src in proptest::sample::select(DType::ALL.to_vec()),
        dst in proptest::sample::select(DType::ALL.to_vec()),
        scaling in proptest::sample::select(SCALINGS.to_vec()),
    ) {
        let size = src.size() as isize;
        let down = size * rows as isize;
        let strides = [down * cols as isize, size, -down];
        strided(&[depth, rows, cols], &strides, src, dst, scaling, false);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_transposed_cast_that_bypasses_the_caches_gives_the_same(
        sides in (1_usize..200, 1_usize..4, 1_usize..200),
        src in proptest::sample::select(DType::ALL.to_vec()),
        dst in proptest::sample::select(DType::ALL.to_vec()),
        shift in 0_usize..64,
    ) {
        bypass(sides, src, dst, shift);
    }
}

#[test]
fn a_cast_of_long_thin_planes_that_bypasses_the_caches_gives_the_same() {
    for dst in [DType::Uint8, DType::Float32, DType::Complex128] {
        bypass((1500, 2, 3), DType::Float32, dst, 8);
        bypass((3, 2, 1500), DType::Float32, dst, 8);
    }
}

/// Casts an array of rows, planes and columns, which are in the opposite order in the source, as a large one is cast.
fn bypass((rows, planes, cols): (usize, usize, usize), src: DType, dst: DType, shift: usize) {
    let Ok(mut plan) = CastPlan::new(src, dst, Scaling::Clamp) else { return };
    plan.params.stream = true;
    let (size, len) = (src.size(), rows * planes * cols);
    let memory: Vec<u8> = (0..len * size).map(|i| (i * i * 31 + i / 7) as u8).collect();
    let shape = [rows, planes, cols];
    let strides = [1, rows, rows * planes].map(|step| (step * size) as isize);
    let mut contiguous = vec![0; memory.len()];
    let mut out = vec![0xee_u8; len * dst.size() + 3 * 64];
    let start = out.as_ptr().align_offset(64) + shift;
    // SAFETY: the memory covers the view, and the targets hold its elements.
    unsafe {
        let (data, dtype) = (memory.as_ptr(), src);
        let view = StridedArray { data, shape: &shape, strides: &strides, dtype, swapped: false };
        copy::gather(contiguous.as_mut_ptr(), view, Threads::ONE);
        let walk = Walk::new(&shape, &strides, size).unwrap();
        let start = Pointers { dst: out.as_mut_ptr().add(start), src: data };
        Pass::new(&plan, ItemBytes::of(&view), Goal::Cast).run(start, &walk);
    }
    let (expected, _) = run(dst, src, &contiguous, Scaling::Clamp, 1);
    let (before, rest) = out.split_at(start);
    assert!(rest[..expected.len()] == expected, "{src} -> {dst}, {shape:?}");
    assert!(rest[expected.len()..].iter().chain(before).all(|byte| *byte == 0xee));
}

fn strided(
    shape: &[usize],
    strides: &[isize],
    src: DType,
    dst: DType,
    scaling: Scaling,
    swapped: bool,
) {
    if !is_real(src) && is_real(dst) && dst != DType::Bool {
        return;
    }
    let (lowest, end) = crate::layout::extent(shape, strides, src.size()).unwrap();
    let memory: Vec<u8> = (0..end - lowest).map(|i| (i * i * 31 + i / 7) as u8).collect();
    let len: usize = shape.iter().product();
    let mut contiguous = vec![0; len * src.size()];
    let mut out = vec![0xee; len * dst.size() + 1];
    // SAFETY: the memory covers the view, and the targets hold its elements.
    let report = unsafe {
        let data = memory.as_ptr().add(lowest.unsigned_abs());
        let view = StridedArray { data, shape, strides, dtype: src, swapped };
        copy::gather(contiguous.as_mut_ptr(), view, Threads::ONE);
        let cast = Cast { dtype: dst, scaling, threads: Threads::ONE };
        cast_strided(out.as_mut_ptr(), view, cast).unwrap()
    };
    assert_eq!(out.pop(), Some(0xee));
    assert_eq!((out, report), run(dst, src, &contiguous, scaling, 1));
}
