//! The bits of floating point formats of 16 and 8 bits.
//!
//! The 8-bit formats are those of ml_dtypes (<https://github.com/jax-ml/ml_dtypes#specifications>): `fn` has
//! no infinity, and all ones is NaN. `fnuz` has NaN in place of the negative zero. `e8m0fnu` is a power of two
//! without sign and without zero.

#[cfg(test)]
mod tests;

/// The way in which a format encodes numbers that are not finite.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Special {
    /// The highest exponent is infinity if the fraction is zero, and NaN otherwise.
    Ieee,
    /// All ones is NaN.
    Finite,
    /// NaN is in place of the negative zero.
    NoNegativeZero,
}

/// A format with a sign, an exponent and a fraction, in this order.
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

    /// The first code after the finite numbers.
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

    /// The code of the nearest value, ties to even. Numbers that round to more than the largest finite one
    /// become infinity, or NaN if the format has no infinity.
    #[cfg(test)]
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
        // With a shift of 63, the whole significand is less than half of the last bit.
        let shift = ((52 - self.fraction as i32) + (kept - exponent)).min(63);
        let down = significand >> shift;
        let rest = significand & ((1 << shift) - 1);
        let half = 1_u64 << (shift - 1);
        let rounded = down + u64::from(rest > half || (rest == half && down & 1 == 1));
        // The hidden bit and a carry both add one to the exponent.
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

impl Format {
    /// Does what [`encode`](Self::encode) does, for an `f32`, and says whether a finite number
    /// became one that is not. Written as [`f32_to_f16`], without branches: the exponent moves and
    /// the fraction is rounded in the bits of the number. What is smaller than the smallest normal
    /// number is aligned by an addition.
    #[inline(always)]
    fn encode_f32(self, x: f32) -> (u32, bool) {
        const INFINITE: u32 = 0xff << 23;
        let dropped = 23 - self.fraction;
        let smallest_normal = ((128 - self.bias) as u32) << 23;
        // The last bit of this number has the value of that of a subnormal one.
        let align = smallest_normal + (dropped << 23);
        let magnitude = x.to_bits() & 0x7fff_ffff;
        let sign = (x.to_bits() >> 31) * self.sign();
        let aligned = f32::from_bits(magnitude) + f32::from_bits(align);
        let subnormal = aligned.to_bits().wrapping_sub(align);
        let half = (1 << (dropped - 1)) - 1 + (magnitude >> dropped & 1);
        let normal = (magnitude + half).wrapping_sub(smallest_normal - (1 << 23)) >> dropped;
        let code = if magnitude < smallest_normal { subnormal } else { normal };
        let (nan, infinity) = (self.nan(sign), self.beyond() | sign);
        let beyond = if matches!(self.special, Special::Ieee) { infinity } else { nan };
        let is_unsigned = matches!(self.special, Special::NoNegativeZero) && code == 0;
        let signed = if is_unsigned { 0 } else { code | sign };
        let is_large = magnitude >= INFINITE || code >= self.beyond();
        let number = if is_large { beyond } else { signed };
        let found = if magnitude > INFINITE { nan } else { number };
        (found, is_large && magnitude < INFINITE)
    }

    /// Returns whether the number is in the middle of two values. True for every subnormal number if those of the format are
    /// those of `f32`.
    #[inline(always)]
    fn is_midpoint(self, x: f32) -> bool {
        let dropped = 23 - self.fraction;
        let smallest_normal = ((128 - self.bias) as u32) << 23;
        let align = smallest_normal + (dropped << 23);
        let magnitude = x.to_bits() & 0x7fff_ffff;
        let normal = magnitude & ((1 << dropped) - 1) == 1 << (dropped - 1);
        let subnormal = if align <= 24 << 23 {
            magnitude != 0
        } else {
            let (x, align) = (f32::from_bits(magnitude), f32::from_bits(align));
            // Half of the last bit of `align`, which is that of a subnormal number.
            (x - ((x + align) - align)).abs().to_bits() == align.to_bits() - (24 << 23)
        };
        if magnitude < smallest_normal { subnormal } else { normal }
    }
}

/// The conversions of a format.
pub(super) trait SmallFloat {
    /// The integer that holds the bits.
    type Bits: Copy;
    /// The exact value.
    fn decode(bits: Self::Bits) -> f32;
    /// The code of the nearest value, ties to even.
    #[cfg(test)]
    fn encode(x: f64) -> Self::Bits;
    /// The same of an `f32`, and whether a finite number became infinite or NaN.
    fn encode_f32(x: f32) -> (Self::Bits, bool);
    /// Returns whether the number is in the middle of two values, or may be.
    fn is_midpoint(x: f32) -> bool;
    /// True if the processor encodes vectors.
    const HAS_INSTRUCTION: bool = false;

    /// Does what [`encode_f32`](Self::encode_f32) does, for a multiple of eight numbers.
    ///
    /// # Safety
    ///
    /// The source holds the numbers, and the target has room for their codes. Neither need be aligned. The processor has AVX2
    /// and F16C.
    #[inline(always)]
    unsafe fn encode_by_instruction(_: *mut Self::Bits, _: *const f32, _: usize) {}
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

            #[cfg(test)]
            fn encode(x: f64) -> u8 {
                Self::FORMAT.encode(x) as u8
            }

            #[inline(always)]
            fn encode_f32(x: f32) -> (u8, bool) {
                let (code, is_lost) = Self::FORMAT.encode_f32(x);
                (code as u8, is_lost)
            }

            #[inline(always)]
            fn is_midpoint(x: f32) -> bool {
                Self::FORMAT.is_midpoint(x)
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

/// `float8_e8m0fnu`: two to the power of the code minus 127; 255 is NaN.
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

    /// Zero and negative numbers become NaN. Ties are rounded up, as in ml_dtypes, since the significand of the
    /// smaller power, 1, is odd.
    #[cfg(test)]
    fn encode(x: f64) -> u8 {
        if x.is_nan() || x <= 0.0 {
            return 255;
        }
        let bits = x.to_bits();
        let exponent = (bits >> 52) as i32 - 1023;
        let up = (bits >> 51 & 1) as i32;
        if exponent < -127 { 0 } else { (exponent + up + 127).min(255) as u8 }
    }

    #[inline(always)]
    fn encode_f32(x: f32) -> (u8, bool) {
        const INFINITE: u32 = 0xff << 23;
        let bits = x.to_bits();
        let normal = (bits >> 23) + (bits >> 22 & 1);
        // 2^-127 is a subnormal number, and the bit after its only one rounds.
        let subnormal = (bits >> 22) & (bits >> 21) & 1;
        let code = if bits < 1 << 23 { subnormal } else { normal };
        // Zero wraps, and a sign is greater than an infinity.
        let is_positive = bits.wrapping_sub(1) < INFINITE;
        let code = if is_positive { code.min(255) } else { 255 };
        (code as u8, code == 255 && x.is_finite())
    }

    /// A cast from a wider type rounds only once.
    #[inline(always)]
    fn is_midpoint(_: f32) -> bool {
        true
    }
}

macro_rules! sixteens {
    ($($name:ident $decode:ident $encode:ident $exponent:literal $fraction:literal $bias:literal {$($instruction:tt)*})*) => {$(
        pub(super) struct $name;

        impl $name {
            const FORMAT: Format = Format {
                exponent: $exponent,
                fraction: $fraction,
                bias: $bias,
                special: Special::Ieee,
            };
        }

        impl SmallFloat for $name {
            type Bits = u16;

            #[inline(always)]
            fn decode(bits: u16) -> f32 {
                $decode(bits)
            }

            #[cfg(test)]
            fn encode(x: f64) -> u16 {
                Self::FORMAT.encode(x) as u16
            }

            #[inline(always)]
            fn encode_f32(x: f32) -> (u16, bool) {
                const INFINITE: u32 = 0xff << 23;
                // The largest value has an odd code, so that the middle above it becomes infinite.
                const LARGE: u32 = ((127 + (1 << ($exponent - 1))) << 23) - (1 << (22 - $fraction));
                let magnitude = x.to_bits() & 0x7fff_ffff;
                ($encode(x), magnitude.wrapping_sub(LARGE) < INFINITE - LARGE)
            }

            #[inline(always)]
            fn is_midpoint(x: f32) -> bool {
                Self::FORMAT.is_midpoint(x)
            }

            $($instruction)*
        }
    )*};
}

sixteens! {
    Float16 f16_to_f32 f32_to_f16 5 10 15 {
        #[cfg(target_arch = "x86_64")]
        const HAS_INSTRUCTION: bool = true;

        #[cfg(target_arch = "x86_64")]
        #[inline(always)]
        unsafe fn encode_by_instruction(dst: *mut u16, src: *const f32, len: usize) {
            use std::arch::x86_64::{_MM_FROUND_TO_NEAREST_INT, _mm_storeu_si128, _mm256_cvtps_ph, _mm256_loadu_ps};
            for i in (0..len).step_by(8) {
                // SAFETY: the vectors are inside the source and the target, and the processor has the instructions.
                unsafe {
                    let x = _mm256_loadu_ps(src.add(i));
                    _mm_storeu_si128(dst.add(i).cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x));
                }
            }
        }
    }
    Bfloat16 bf16_to_f32 f32_to_bf16 8 7 127 {}
}

#[inline(always)]
fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

#[inline(always)]
fn f32_to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    (if x.is_nan() { bits >> 16 | 0x40 } else { rounded }) as u16
}

/// Written without branches, so that a loop becomes vector code on any processor, and with normal numbers
/// only, since a thread may flush subnormal ones to zero.
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

/// Rounds half to even by means of `f32` additions: see F. Giesen,
/// <https://gist.github.com/rygorous/2156668>.
#[inline(always)]
fn f32_to_f16(x: f32) -> u16 {
    const INFINITE: u32 = 0xff << 23;
    const TOO_LARGE: u32 = (127 + 16) << 23;
    const SMALLEST_NORMAL: u32 = (127 - 14) << 23;
    // The last bit of this number has the value of that of a subnormal float16.
    const ALIGN: u32 = (127 - 14 + 13) << 23;
    let magnitude = x.to_bits() & 0x7fff_ffff;
    let sign = (x.to_bits() >> 16) & 0x8000;
    let nan = 0x7e00 | magnitude >> 13 & 0x1ff;
    let special = if magnitude > INFINITE { nan } else { 0x7c00 };
    let aligned = f32::from_bits(magnitude) + f32::from_bits(ALIGN);
    let subnormal = aligned.to_bits().wrapping_sub(ALIGN);
    let odd = magnitude >> 13 & 1;
    let normal = magnitude.wrapping_sub((127 - 15) << 23).wrapping_add(0xfff + odd) >> 13;
    let finite = if magnitude < SMALLEST_NORMAL { subnormal } else { normal };
    let value = if magnitude >= TOO_LARGE { special } else { finite };
    (value | sign) as u16
}
