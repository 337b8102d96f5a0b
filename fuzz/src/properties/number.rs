//! Casts of single numbers, as simple as they can be said.

use arraybridge_host::dtype::{DType, Kind};

/// The exact value of an element.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    Int(i128),
    Float(f64),
}

/// A small floating point format: the bits of its exponent and fraction, its bias, and whether it has infinities
/// and a negative zero.
struct Format {
    exponent: u32,
    fraction: u32,
    bias: i32,
    ieee: bool,
    fnuz: bool,
}

impl Format {
    fn of(dtype: DType) -> Option<Format> {
        let (exponent, fraction, bias, ieee, fnuz) = match dtype {
            DType::Float16 => (5, 10, 15, true, false),
            DType::Bfloat16 => (8, 7, 127, true, false),
            DType::Float8E3m4 => (3, 4, 3, true, false),
            DType::Float8E4m3 => (4, 3, 7, true, false),
            DType::Float8E4m3b11fnuz => (4, 3, 11, false, true),
            DType::Float8E4m3fn => (4, 3, 7, false, false),
            DType::Float8E4m3fnuz => (4, 3, 8, false, true),
            DType::Float8E5m2 => (5, 2, 15, true, false),
            DType::Float8E5m2fnuz => (5, 2, 16, false, true),
            _ => return None,
        };
        Some(Format { exponent, fraction, bias, ieee, fnuz })
    }

    /// The value of a code without its sign, as if the exponent had no end.
    fn magnitude(&self, code: u32) -> f64 {
        let (exponent, fraction) = (code >> self.fraction, code & ((1 << self.fraction) - 1));
        let (whole, power) = match exponent {
            0 => (fraction, 1),
            power => (fraction | 1 << self.fraction, power as i32),
        };
        f64::from(whole) * 2_f64.powi(power - self.bias - self.fraction as i32)
    }

    /// The code of the largest finite number.
    fn largest(&self) -> u32 {
        let all = (1 << (self.exponent + self.fraction)) - 1;
        match (self.ieee, self.fnuz) {
            (true, _) => all - (1 << self.fraction),
            (_, true) => all,
            _ => all - 1,
        }
    }

    fn decode(&self, code: u32) -> f64 {
        let sign = 1 << (self.exponent + self.fraction);
        let magnitude = code & (sign - 1);
        let value = if self.fnuz && code == sign || magnitude > self.largest() + 1 {
            f64::NAN
        } else if magnitude == self.largest() + 1 {
            if self.ieee { f64::INFINITY } else { f64::NAN }
        } else {
            self.magnitude(magnitude)
        };
        if code & sign == 0 { value } else { -value }
    }

    /// The nearest value, ties to even codes.
    fn round(&self, x: Number) -> f64 {
        let float = x.float();
        if float.is_nan() {
            return f64::NAN;
        }
        let beyond = if self.ieee { f64::INFINITY } else { f64::NAN };
        let signed = |value: f64| match float.is_sign_negative() {
            true if self.fnuz && value == 0.0 => 0.0,
            true => -value,
            false => value,
        };
        if float.is_infinite() {
            return signed(beyond);
        }
        // The last code that is not above the number.
        let (mut low, mut high) = (0, self.largest() + 1);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if x.compare(self.magnitude(middle)).is_ge() { low = middle } else { high = middle }
        }
        if x.compare(self.magnitude(high)).is_ge() {
            return signed(beyond);
        }
        let half = (self.magnitude(low) + self.magnitude(high)) / 2.0;
        let up = x.compare(half).is_gt() || x.compare(half).is_eq() && low % 2 == 1;
        let code = if up { high } else { low };
        signed(if code > self.largest() { beyond } else { self.magnitude(code) })
    }
}

impl Number {
    pub fn read(dtype: DType, bytes: &[u8]) -> Number {
        let mut code = [0; 8];
        code[..bytes.len()].copy_from_slice(bytes);
        let code = u64::from_le_bytes(code);
        let unused = 64 - 8 * bytes.len();
        match dtype.kind() {
            Kind::Bool => Number::Int((code != 0).into()),
            Kind::Unsigned => Number::Int(code.into()),
            Kind::Signed => Number::Int(((code << unused).cast_signed() >> unused).into()),
            _ => Number::Float(match (dtype, Format::of(dtype)) {
                (_, Some(format)) => format.decode(code as u32),
                (DType::Float32, _) => f32::from_bits(code as u32).into(),
                (DType::Float8E8m0fnu, _) if code == 255 => f64::NAN,
                (DType::Float8E8m0fnu, _) => 2_f64.powi(code as i32 - 127),
                _ => f64::from_bits(code),
            }),
        }
    }

    pub fn is_zero(self) -> bool {
        matches!(self, Number::Int(0)) || matches!(self, Number::Float(0.0))
    }

    pub fn has_fraction(self, to: DType) -> bool {
        let rounds = [Kind::Unsigned, Kind::Signed].contains(&to.kind());
        rounds && matches!(self, Number::Float(x) if x.is_finite() && x.fract() != 0.0)
    }

    fn float(self) -> f64 {
        match self {
            Number::Int(int) => int as f64,
            Number::Float(float) => float,
        }
    }

    /// Compares the absolute value with a value of a small format, exactly.
    fn compare(self, other: f64) -> std::cmp::Ordering {
        match self {
            // Numbers of more than 64 bits are above every integer, and the others are a multiple of 2^-64.
            Number::Int(int) if other < 2_f64.powi(60) => {
                (int.abs() as f64).total_cmp(&other).then(std::cmp::Ordering::Equal)
            }
            Number::Int(int) => int.abs().cmp(&(other as i128)),
            Number::Float(float) => float.abs().total_cmp(&other),
        }
    }

    /// The number that it becomes, and whether that is a loss.
    pub fn cast(self, to: DType, unit: bool) -> (Number, bool) {
        let bits = to.size() * 8;
        let (min, max) = match to.kind() {
            Kind::Unsigned => (0, (1_i128 << bits) - 1),
            Kind::Signed => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
            _ => {
                let number = Number::Float(self.rounded(to));
                let lost = self.float().is_finite() && !number.float().is_finite();
                return (number, lost);
            }
        };
        let exact = match self {
            Number::Int(int) => int,
            Number::Float(x) if x.is_nan() => return (Number::Int(0), true),
            Number::Float(x) if unit => product(x, max),
            Number::Float(x) => x.round_ties_even() as i128,
        };
        let kept = exact.clamp(min, max);
        (Number::Int(kept), kept != exact)
    }

    fn rounded(self, to: DType) -> f64 {
        match (to, self, Format::of(to)) {
            (_, _, Some(format)) => format.round(self),
            (DType::Float32, Number::Int(int), _) => (int as f32).into(),
            (DType::Float32, Number::Float(float), _) => (float as f32).into(),
            (DType::Float8E8m0fnu, ..) => self.power(),
            _ => self.float(),
        }
    }

    /// The nearest power of two, of those that there are.
    fn power(self) -> f64 {
        let x = self.float();
        let below = |power: i32| self.compare(1.5 * 2_f64.powi(power));
        match x {
            _ if x.is_nan() || x <= 0.0 || x.is_infinite() => f64::NAN,
            _ => (-127..128)
                .find(|power| below(*power).is_lt())
                .map_or(f64::NAN, |power| 2_f64.powi(power)),
        }
    }

    pub fn is_same(self, other: &Number) -> bool {
        match (self, *other) {
            (Number::Int(one), Number::Int(other)) => one == other,
            (Number::Float(one), Number::Float(other)) => {
                one.is_nan() && other.is_nan() || one.to_bits() == other.to_bits()
            }
            _ => false,
        }
    }
}

/// The product, rounded half to even. What is too large for the integer saturates.
fn product(x: f64, factor: i128) -> i128 {
    let bits = x.to_bits();
    let power = (bits >> 52 & 0x7ff) as i32;
    if power == 0x7ff {
        return if x > 0.0 { i128::MAX } else { i128::MIN };
    }
    let fraction = i128::from(bits & ((1 << 52) - 1));
    let whole = if power == 0 { fraction } else { fraction | 1 << 52 };
    // It has 53 bits and the factor has 64.
    let (product, shift) = (whole * factor, power.max(1) - 1075);
    let rounded = match shift {
        8.. => return if x > 0.0 { i128::MAX } else { i128::MIN },
        0.. => product << shift,
        -126.. => {
            let (down, rest) = (product >> -shift, product & ((1 << -shift) - 1));
            let half = 1 << (-shift - 1);
            down + i128::from(rest > half || rest == half && down % 2 == 1)
        }
        _ => 0,
    };
    if x < 0.0 { -rounded } else { rounded }
}
