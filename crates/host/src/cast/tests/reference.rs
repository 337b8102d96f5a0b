//! The reference: integers are `i128`, floats `f64`.

use half::{bf16, f16};

use super::super::element::Params;
use super::super::{Scaling, kernel};
use crate::dtype::{DType, Kind};

/// The exact value of an element.
#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    Int(i128),
    Float(f64),
}

impl Number {
    pub fn read(dtype: DType, bytes: &[u8]) -> Number {
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

    pub fn float(self) -> f64 {
        match self {
            Number::Int(int) => int as f64,
            Number::Float(float) => float,
        }
    }
}

pub(super) fn read_float(dtype: DType, bytes: &[u8]) -> f64 {
    match dtype {
        DType::Float16 => f16::from_ne_bytes(bytes.try_into().unwrap()).to_f64(),
        DType::Bfloat16 => bf16::from_ne_bytes(bytes.try_into().unwrap()).to_f64(),
        DType::Float32 => f64::from(f32::from_ne_bytes(bytes.try_into().unwrap())),
        DType::Float64 => f64::from_ne_bytes(bytes.try_into().unwrap()),
        // The 8-bit formats are tested exhaustively elsewhere; here only their place in a chain matters.
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

pub(super) fn limits(dtype: DType) -> Option<(i128, i128)> {
    let bits = dtype.size() * 8;
    match dtype.kind() {
        Kind::Unsigned => Some((0, (1 << bits) - 1)),
        Kind::Signed => Some((-(1 << (bits - 1)), (1 << (bits - 1)) - 1)),
        _ => None,
    }
}

/// The exact `x * factor`, rounded half to even. Huge products saturate.
pub(super) fn rounded_product(x: f64, factor: i128) -> i128 {
    if x.abs() * factor as f64 >= 2_f64.powi(125) {
        return if x > 0.0 { i128::MAX } else { i128::MIN };
    }
    // Unless it rounds to zero, x is a multiple of 2^-120.
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

/// The result of casting a real element: the number that the target's bits must represent, and whether it is
/// clipped.
pub(super) fn expected(
    x: Number,
    dst: DType,
    scaling: Scaling,
    ends: (f64, f64),
) -> (Number, bool) {
    if dst == DType::Bool {
        return (Number::Int(i128::from(x.float() != 0.0)), false);
    }
    if let Some((min, max)) = limits(dst) {
        let exact = match (x, scaling) {
            (Number::Int(int), _) => int,
            (Number::Float(float), _) if float.is_nan() => return (Number::Int(0), true),
            (Number::Float(float), Scaling::Clamp) => rounded_product(float, 1),
            (Number::Float(float), Scaling::Unit) => rounded_product(float, max),
            (Number::Float(float), Scaling::Stretch) if !is_stretched(ends) => {
                rounded_product(float, 1)
            }
            (Number::Float(float), Scaling::Stretch) => {
                return stretched(float, (min, max), ends);
            }
        };
        let kept = exact.clamp(min, max);
        return (Number::Int(kept), kept != exact);
    }
    (Number::Float(x.float()), false)
}

pub(super) fn stretched(x: f64, (min, max): (i128, i128), ends: (f64, f64)) -> (Number, bool) {
    if !x.is_finite() {
        return (Number::Int(if x > 0.0 { max } else { min }), true);
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

/// Returns whether there is a range to stretch. The values of a constant array are rounded and clamped.
fn is_stretched(ends: (f64, f64)) -> bool {
    ends.0 < ends.1
}

/// Returns whether rounding a real element to an integer loses something.
pub(super) fn has_fraction(x: Number, dst: DType, scaling: Scaling, ends: (f64, f64)) -> bool {
    let is_rounded =
        scaling == Scaling::Clamp || scaling == Scaling::Stretch && !is_stretched(ends);
    let rounds = limits(dst).is_some() && is_rounded;
    rounds && matches!(x, Number::Float(float) if float.is_finite() && float.fract() != 0.0)
}

/// Returns whether the bytes of a float type represent a number, rounded once.
pub(super) fn same_float(dtype: DType, bytes: &[u8], x: Number) -> bool {
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

pub(super) fn encoded(dtype: DType, x: f64) -> Vec<u8> {
    let mut out = vec![0; dtype.size()];
    let source = (&raw const x).cast();
    // SAFETY: one element each.
    unsafe { kernel::encode(dtype).unwrap()(out.as_mut_ptr(), source, 1, &Params::default()) };
    out
}

/// The value of a small float that is nearest to an integer, by its exact differences from the code that two
/// roundings give and from the adjacent codes.
pub(super) fn nearest(dtype: DType, int: i128) -> f64 {
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

pub(super) fn is_real(dtype: DType) -> bool {
    dtype.kind() != Kind::Complex
}

pub(super) fn reals() -> impl Iterator<Item = DType> {
    DType::ALL.iter().copied().filter(|dtype| is_real(*dtype))
}

/// Powers of two, ties, the limits of every integer, and the adjacent numbers.
pub(super) fn special_floats() -> Vec<f64> {
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

pub(super) fn special_ints() -> Vec<i128> {
    let near = |power: u32| (-2..=2).map(move |rest| (1_i128 << power) + rest);
    (0..65).flat_map(near).flat_map(|x| [x, -x]).collect()
}

/// The bytes of a type's special values.
pub(super) fn specials(dtype: DType) -> Vec<u8> {
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
