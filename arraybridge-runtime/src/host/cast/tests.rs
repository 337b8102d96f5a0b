//! Every cast against a reference that knows numbers, not bits: integers are `i128`, floats `f64`.

use half::{bf16, f16};
use proptest::prelude::*;

use super::*;

const SCALINGS: [Scaling; 3] = [Scaling::Clamp, Scaling::Unit, Scaling::Stretch];

/// An element, exactly.
#[derive(Clone, Copy, Debug)]
enum Number {
    Int(i128),
    Float(f64),
}

impl Number {
    fn read(dtype: DType, bytes: &[u8]) -> Number {
        macro_rules! int {
            ($type:ty) => {
                Number::Int(<$type>::from_ne_bytes(bytes.try_into().unwrap()) as i128)
            };
        }
        match dtype {
            DType::Bool => Number::Int(i128::from(bytes[0] != 0)),
            DType::Uint8 => int!(u8),
            DType::Uint16 => int!(u16),
            DType::Uint32 => int!(u32),
            DType::Uint64 => int!(u64),
            DType::Int8 => int!(i8),
            DType::Int16 => int!(i16),
            DType::Int32 => int!(i32),
            DType::Int64 => int!(i64),
            _ => Number::Float(read_float(dtype, bytes)),
        }
    }

    fn float(self) -> f64 {
        match self {
            Number::Int(int) => int as f64,
            Number::Float(float) => float,
        }
    }
}

fn read_float(dtype: DType, bytes: &[u8]) -> f64 {
    match dtype {
        DType::Float16 => f16::from_ne_bytes(bytes.try_into().unwrap()).to_f64(),
        DType::Bfloat16 => bf16::from_ne_bytes(bytes.try_into().unwrap()).to_f64(),
        DType::Float32 => f64::from(f32::from_ne_bytes(bytes.try_into().unwrap())),
        DType::Float64 => f64::from_ne_bytes(bytes.try_into().unwrap()),
        // The 8-bit formats have exhaustive tests of their own; here only their place in a chain.
        _ => {
            let mut out = [0; 4];
            // SAFETY: one element each.
            unsafe {
                kernel::decode(dtype).unwrap()(
                    out.as_mut_ptr(),
                    bytes.as_ptr(),
                    1,
                    &Params::default(),
                )
            };
            f64::from(f32::from_ne_bytes(out))
        }
    }
}

fn limits(dtype: DType) -> Option<(i128, i128)> {
    let bits = dtype.size() * 8;
    match dtype.kind() {
        Kind::Unsigned => Some((0, (1 << bits) - 1)),
        Kind::Signed => Some((-(1 << (bits - 1)), (1 << (bits - 1)) - 1)),
        _ => None,
    }
}

/// `x * factor`, exact and then rounded half to even; huge products saturate.
fn rounded_product(x: f64, factor: i128) -> i128 {
    if x.abs() * factor as f64 >= 2_f64.powi(125) {
        return if x > 0.0 { i128::MAX } else { i128::MIN };
    }
    // x is a whole number of 2^-120, but for what rounds to zero.
    let (mut whole, mut shift) = (x, 0);
    while whole.fract() != 0.0 && shift < 120 {
        whole *= 2.0;
        shift += 1;
    }
    if whole.fract() != 0.0 || shift == 120 {
        return 0;
    }
    let (product, one) = (whole as i128 * factor, 1_i128 << shift);
    let (down, rest) = (product.div_euclid(one), product.rem_euclid(one) * 2);
    if rest > one || (rest == one && down % 2 != 0) { down + 1 } else { down }
}

/// What a real element becomes: the number that the target's bits must read as, and whether it was
/// clipped.
fn expected(x: Number, dst: DType, scaling: Scaling, ends: (f64, f64)) -> (Number, bool) {
    if dst == DType::Bool {
        return (Number::Int(i128::from(x.float() != 0.0)), false);
    }
    if let Some((min, max)) = limits(dst) {
        let exact = match (x, scaling) {
            (Number::Int(int), _) => int,
            (Number::Float(float), _) if float.is_nan() => return (Number::Int(0), true),
            (Number::Float(float), Scaling::Clamp) => rounded_product(float, 1),
            (Number::Float(float), Scaling::Unit) => rounded_product(float, max),
            (Number::Float(float), Scaling::Stretch) => {
                return stretched(float, (min, max), ends);
            }
        };
        let kept = exact.clamp(min, max);
        return (Number::Int(kept), kept != exact);
    }
    (Number::Float(x.float()), false)
}

fn stretched(x: f64, (min, max): (i128, i128), ends: (f64, f64)) -> (Number, bool) {
    if !x.is_finite() {
        return (Number::Int(if x > 0.0 { max } else { min }), true);
    }
    if ends.0 == ends.1 {
        return (Number::Int(0), false);
    }
    let half = if (ends.1 - ends.0).is_finite() { 1.0 } else { 0.5 };
    let position = (x * half - ends.0 * half) / (ends.1 * half - ends.0 * half);
    let span = max - min;
    let scaled = if span > 1 << 40 {
        rounded_product(position, span)
    } else {
        (position * span as f64).round_ties_even() as i128
    };
    (Number::Int(scaled + min), false)
}

/// The bytes of a number in a float type, each rounding done once.
fn same_float(dtype: DType, bytes: &[u8], x: Number) -> bool {
    let read = read_float(dtype, bytes);
    let float = x.float();
    if float.is_nan() {
        return read.is_nan();
    }
    let expected = match (dtype, x) {
        (DType::Float64, _) => float,
        (DType::Float32, Number::Int(int)) => f64::from(int as f32),
        (DType::Float32, Number::Float(float)) => f64::from(float as f32),
        (_, Number::Int(int)) => nearest(dtype, int),
        (_, Number::Float(float)) => read_float(dtype, &encoded(dtype, float)),
    };
    read == expected && read.is_sign_negative() == expected.is_sign_negative()
        || read.is_nan() && expected.is_nan()
}

fn encoded(dtype: DType, x: f64) -> Vec<u8> {
    let mut out = vec![0; dtype.size()];
    let source = (&raw const x).cast();
    // SAFETY: one element each.
    unsafe { kernel::encode(dtype).unwrap()(out.as_mut_ptr(), source, 1, &Params::default()) };
    out
}

/// The value of a small float that is nearest to an integer, by exact differences between it and
/// the codes around what a second rounding may have missed.
fn nearest(dtype: DType, int: i128) -> f64 {
    let mut code = [0; 4];
    code[..dtype.size()].copy_from_slice(&encoded(dtype, int as f64));
    let code = u32::from_le_bytes(code);
    let value = |code: u32| read_float(dtype, &code.to_le_bytes()[..dtype.size()]);
    if !value(code).is_finite() || value(code) == 0.0 {
        return value(code);
    }
    let tie = |code: u32| match dtype {
        DType::Float8E8m0fnu => u32::MAX - code,
        _ => code & 1,
    };
    [code - 1, code, code + 1]
        .into_iter()
        .filter(|code| value(*code).is_finite())
        .min_by_key(|code| ((value(*code) as i128 - int).abs(), tie(*code)))
        .map_or(f64::NAN, value)
}

fn run(dst: DType, src: DType, bytes: &[u8], scaling: Scaling, threads: usize) -> (Vec<u8>, u64) {
    let len = bytes.len() / src.size();
    let mut out = vec![0xee; len * dst.size() + 1];
    // SAFETY: both hold `len` elements.
    let report =
        unsafe { cast(out.as_mut_ptr(), dst, bytes.as_ptr(), src, len, scaling, threads).unwrap() };
    assert_eq!(out.pop(), Some(0xee));
    (out, report.clipped)
}

/// Casts and compares every element and the count.
fn check(dst: DType, src: DType, bytes: &[u8], scaling: Scaling) {
    let numbers: Vec<Number> =
        bytes.chunks(src.size()).map(|bytes| Number::read(src, bytes)).collect();
    let finite = || numbers.iter().map(|x| x.float()).filter(|x| x.is_finite());
    let ends = (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
    let (out, clipped) = run(dst, src, bytes, scaling, 1);
    let mut count = 0;
    for (x, bytes) in numbers.iter().zip(out.chunks(dst.size())) {
        let (number, clip) = expected(*x, dst, scaling, ends);
        count += u64::from(clip);
        let same = match (number, Number::read(dst, bytes)) {
            (Number::Int(expected), Number::Int(read)) => expected == read,
            _ => same_float(dst, bytes, *x),
        };
        assert!(same, "{src} {x:?} -> {dst} {scaling:?}: {bytes:?}, not {number:?}");
    }
    assert_eq!(clipped, count, "{src} -> {dst} {scaling:?}");
}

fn is_real(dtype: DType) -> bool {
    dtype.kind() != Kind::Complex
}

fn reals() -> impl Iterator<Item = DType> {
    DType::ALL.iter().copied().filter(|dtype| is_real(*dtype))
}

/// Powers of two, ties, the ends of every integer, and what is next to them.
fn special_floats() -> Vec<f64> {
    let mut values = vec![f64::NAN, f64::INFINITY, 0.0, f64::from_bits(1), 1e-40, 1e300, f64::MAX];
    values.extend([1e-310, f64::MIN_POSITIVE, f64::from(f32::MIN_POSITIVE), f64::from(f32::MAX)]);
    values.extend([0.1, 1.0 / 3.0, 4294967040.0, 0.5 / 255.0, 1.5 / 65535.0, 2.5 / 4294967295.0]);
    for power in -30..70 {
        let x = 2_f64.powi(power);
        values.extend([x, x * 1.5, x + 0.5, x - 0.5, x - 1.0, x - 1.5]);
    }
    let near: Vec<f64> = values
        .iter()
        .flat_map(|x| [*x, x.next_up(), x.next_down()])
        .flat_map(|x| [x, f64::from(x as f32), f64::from((x as f32).next_down())])
        .collect();
    near.iter().flat_map(|x| [*x, -x]).collect()
}

fn special_ints() -> Vec<i128> {
    let near = |power: u32| (-2..=2).map(move |rest| (1_i128 << power) + rest);
    (0..65).flat_map(near).flat_map(|x| [x, -x]).collect()
}

/// The special values of a type as its bytes.
fn specials(dtype: DType) -> Vec<u8> {
    macro_rules! ints {
        ($type:ty) => {
            special_ints().into_iter().flat_map(|x| (x as $type).to_ne_bytes()).collect()
        };
    }
    match dtype {
        DType::Uint16 => ints!(u16),
        DType::Uint32 => ints!(u32),
        DType::Uint64 => ints!(u64),
        DType::Int16 => ints!(i16),
        DType::Int32 => ints!(i32),
        DType::Int64 => ints!(i64),
        DType::Float32 => {
            special_floats().into_iter().flat_map(|x| (x as f32).to_ne_bytes()).collect()
        }
        DType::Float64 => special_floats().into_iter().flat_map(f64::to_ne_bytes).collect(),
        DType::Float16 | DType::Bfloat16 => (0..=u16::MAX).flat_map(u16::to_ne_bytes).collect(),
        _ => (0..=u8::MAX).collect(),
    }
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

#[test]
fn the_scaling_of_an_integer_source_does_not_count() {
    for (src, dst) in [(DType::Int32, DType::Uint16), (DType::Bool, DType::Uint8)] {
        let bytes = specials(src);
        for scaling in SCALINGS {
            assert_eq!(run(dst, src, &bytes, scaling, 1), run(dst, src, &bytes, Scaling::Clamp, 1));
        }
    }
}

#[test]
fn the_place_of_an_element_does_not_count() {
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

#[test]
fn a_result_written_past_the_caches_is_the_same() {
    let len = STREAM_MIN / 8 + 1001;
    let bytes: Vec<u8> = (0..len as u32)
        .flat_map(|i| f32::from_bits(i.wrapping_mul(0x9e37_79b1)).to_ne_bytes())
        .collect();
    let (src, dst) = (DType::Float32, DType::Int64);
    let parts: Vec<(Vec<u8>, u64)> =
        bytes.chunks(4 << 20).map(|part| run(dst, src, part, Scaling::Clamp, 1)).collect();
    let (expected, clipped): (Vec<Vec<u8>>, Vec<u64>) = parts.into_iter().unzip();
    let (expected, clipped) = (expected.concat(), clipped.iter().sum::<u64>());
    let mut buffer = crate::host::buffer::HostBuffer::new(8 * len + 64).unwrap();
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
            assert_eq!(report.clipped, clipped);
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
fn the_ends_of_the_integers_are_exact() {
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
fn a_stretch_reaches_both_ends_and_special_values_change_no_other() {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let values = [nan, -3.0, inf, 0.1, -inf, 7.0];
    let ints: Vec<i16> = stretch(&values, DType::Int16);
    let plain: Vec<i16> = stretch(&[-3.0, 0.1, 7.0], DType::Int16);
    assert_eq!(ints, [0, i16::MIN, i16::MAX, plain[1], i16::MIN, i16::MAX]);
    assert_eq!(stretch::<u64>(&[-1e308, 1e308], DType::Uint64), [0, u64::MAX]);
    assert_eq!(stretch::<i64>(&[0.1, 0.3, 0.2], DType::Int64)[..2], [i64::MIN, i64::MAX]);
    assert_eq!(stretch::<u8>(&[0.0, 5e-324], DType::Uint8), [0, 255]);
    assert_eq!(stretch::<i8>(&[5.0, 5.0, inf, nan], DType::Int8), [0, 0, 127, 0]);
    assert_eq!(stretch::<u8>(&[nan, -inf, inf], DType::Uint8), [0, 0, 255]);
    assert!(stretch::<u8>(&[], DType::Uint8).is_empty());
}

#[test]
fn a_complex_array_becomes_no_real_one() {
    for dst in reals().filter(|dtype| *dtype != DType::Bool) {
        let (mut out, x) = ([0_u8; 8], [1.0_f32, 0.0]);
        let (to, from) = (out.as_mut_ptr(), x.as_ptr().cast());
        // SAFETY: one element of each type.
        let result = unsafe { cast(to, dst, from, DType::Complex64, 1, Scaling::Clamp, 1) };
        assert_eq!(result, Err(CastError { from: DType::Complex64, to: dst }));
    }
}

#[test]
fn parts_of_complex_numbers_are_cast_on_their_own() {
    use DType::*;
    let clamp = Scaling::Clamp;
    let z = [0.1_f64, -1e300];
    let narrow: ([f32; 2], u64) = ([0.1, f32::NEG_INFINITY], 0);
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
    let parts = if is_real(src) { 1 } else { 2 };
    let swap = swapped.then_some(src.size() / parts);
    let (lowest, end) = crate::host::layout::extent(shape, strides, src.size()).unwrap();
    let memory: Vec<u8> = (0..end - lowest).map(|i| (i * i * 31 + i / 7) as u8).collect();
    let len: usize = shape.iter().product();
    let mut contiguous = vec![0; len * src.size()];
    let mut out = vec![0xee; len * dst.size() + 1];
    // SAFETY: the memory covers the view, and the targets hold its elements.
    let report = unsafe {
        let data = memory.as_ptr().add(lowest.unsigned_abs());
        let view = Strided { data, shape, strides, dtype: src, swap };
        copy::gather(contiguous.as_mut_ptr(), data, shape, strides, src.size(), swap, 1);
        cast_strided(out.as_mut_ptr(), dst, view, scaling, 1).unwrap()
    };
    assert_eq!(out.pop(), Some(0xee));
    assert_eq!((out, report.clipped), run(dst, src, &contiguous, scaling, 1));
}
