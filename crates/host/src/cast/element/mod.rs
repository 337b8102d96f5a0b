//! Conversions of one element, written so that a loop over them becomes vector code.

mod clamp;
mod float;
mod scale;

pub(super) use self::clamp::Clamp;
pub(super) use self::float::{Complex, Decode, EncodeF32, NonZero, Odd, Parts};
#[cfg(test)]
pub(super) use self::float::{Encode, ToOdd};
pub(super) use self::scale::{Stretch, Unit};

/// A `bool` in memory: any byte but zero is true.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Bool(pub u8);

/// The facts about the whole array that a loop needs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Params {
    /// The finite minimum, times `scale`.
    pub min: f64,
    /// The finite maximum minus the minimum, times `scale`.
    pub range: f64,
    /// 1, or 1/2 if the difference of the extremes exceeds the largest `f64`.
    pub scale: f64,
    /// `1 / range`. It is infinite if that is not a normal number, which a thread may flush to zero.
    pub inverse: f64,
    /// True if the target is so large that writing it should bypass the caches.
    pub stream: bool,
}

impl Params {
    /// Parameters for these extremes, which differ.
    pub fn stretch(min: f64, max: f64) -> Params {
        let scale = if (max - min).is_finite() { 1.0 } else { 0.5 };
        let (min, max) = (min * scale, max * scale);
        let range = max - min;
        let inverse = Some(1.0 / range).filter(|inverse| inverse.is_normal());
        Params { min, range, scale, inverse: inverse.unwrap_or(f64::INFINITY), stream: false }
    }
}

/// A conversion of one element.
pub(super) trait Convert {
    /// The type that is read.
    type Src: Copy;
    /// The type that is written.
    type Dst: Copy;
    /// True if [`quick`](Self::quick) is faster, and seldom in doubt.
    const IS_QUICK: bool = false;
    /// The converted element, and whether it was clipped.
    fn convert(x: Self::Src, params: &Params) -> (Self::Dst, bool);

    /// The converted element by fused multiplications, and a number that is 0 if it may be another one or clipped.
    #[inline(always)]
    fn quick(x: Self::Src, params: &Params) -> (Self::Dst, u32) {
        (Self::convert(x, params).0, 0)
    }

    /// True if the processor has an instruction for it, with AVX2.
    const HAS_INSTRUCTION: bool = false;

    /// Converts a multiple of eight elements by that instruction.
    ///
    /// # Safety
    ///
    /// The conditions of [`Kernel`](super::kernel::Kernel), on a processor with AVX2 and F16C.
    #[inline(always)]
    unsafe fn by_instruction(_: *mut Self::Dst, _: *const Self::Src, _: usize) {}

    /// Returns whether rounding loses the element's fraction.
    #[inline(always)]
    fn loses_fraction(_: Self::Src) -> bool {
        false
    }
}
