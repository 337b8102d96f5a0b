//! Casts to and from small floats and complex numbers.

use super::super::small::SmallFloat;
use super::clamp::CastTo;
use super::{Bool, Convert, Params};

/// A number as an `f64`, rounded to odd: the last bit says whether anything was cut off, so rounding the result
/// to a smaller format is the same as rounding the original once.
pub(in super::super) trait ToOdd: Copy {
    fn to_odd(self) -> f64;
}

macro_rules! exact_to_odd {
    ($($src:ident)*) => {$(
        impl ToOdd for $src {
            #[inline(always)]
            fn to_odd(self) -> f64 {
                f64::from(self)
            }
        }
    )*};
}

exact_to_odd! { u8 i8 u16 i16 u32 i32 f32 f64 }

impl ToOdd for Bool {
    #[inline(always)]
    fn to_odd(self) -> f64 {
        f64::from((self.0 != 0) as u8)
    }
}

impl ToOdd for u64 {
    #[inline(always)]
    fn to_odd(self) -> f64 {
        // At most 53 of the 64 bits, the last of which says whether any bit that was cut off is set.
        let cut = 11_u32.saturating_sub(self.leading_zeros());
        let sticky = self & ((1 << cut) - 1) != 0;
        ((self >> cut | u64::from(sticky)) << cut) as f64
    }
}

impl ToOdd for i64 {
    #[inline(always)]
    fn to_odd(self) -> f64 {
        self.unsigned_abs().to_odd().copysign(if self < 0 { -1.0 } else { 1.0 })
    }
}

/// A number to `f64`, rounded to odd, on the way to a small float.
pub(in super::super) struct Odd<S>(S);

impl<S: ToOdd> Convert for Odd<S> {
    type Src = S;
    type Dst = f64;

    #[inline(always)]
    fn convert(x: S, _: &Params) -> (f64, bool) {
        (x.to_odd(), false)
    }
}

/// A small float to `f32`, which is exact.
pub(in super::super) struct Decode<F>(F);

impl<F: SmallFloat> Convert for Decode<F> {
    type Src = F::Bits;
    type Dst = f32;

    #[inline(always)]
    fn convert(x: F::Bits, _: &Params) -> (f32, bool) {
        (F::decode(x), false)
    }
}

/// An `f64` to a small float, rounded half to even.
pub(in super::super) struct Encode<F>(F);

impl<F: SmallFloat> Convert for Encode<F> {
    type Src = f64;
    type Dst = F::Bits;

    #[inline(always)]
    fn convert(x: f64, _: &Params) -> (F::Bits, bool) {
        let bits = F::encode(x);
        (bits, x.is_finite() && !F::decode(bits).is_finite())
    }
}

/// An `f32` to a small float, rounded half to even.
pub(in super::super) struct EncodeF32<F>(F);

impl<F: SmallFloat> Convert for EncodeF32<F> {
    type Src = f32;
    type Dst = F::Bits;

    #[inline(always)]
    fn convert(x: f32, _: &Params) -> (F::Bits, bool) {
        F::encode_f32(x)
    }
}

/// A real number to a complex one.
pub(in super::super) struct Complex<S>(S);

impl<S: Copy + Default> Convert for Complex<S> {
    type Src = S;
    type Dst = [S; 2];

    #[inline(always)]
    fn convert(x: S, _: &Params) -> ([S; 2], bool) {
        ([x, S::default()], false)
    }
}

/// A complex number to another type of complex numbers.
pub(in super::super) struct Parts<S, D>(S, D);

impl<S: CastTo<D>, D: Copy> Convert for Parts<S, D> {
    type Src = [S; 2];
    type Dst = [D; 2];

    #[inline(always)]
    fn convert(x: [S; 2], _: &Params) -> ([D; 2], bool) {
        let [(real, real_clipped), (imaginary, imaginary_clipped)] = x.map(CastTo::cast);
        ([real, imaginary], real_clipped | imaginary_clipped)
    }
}

/// A complex number to `bool`.
pub(in super::super) struct NonZero<S>(S);

impl<S: CastTo<Bool>> Convert for NonZero<S> {
    type Src = [S; 2];
    type Dst = Bool;

    #[inline(always)]
    fn convert(x: [S; 2], _: &Params) -> (Bool, bool) {
        (Bool(x[0].cast().0.0 | x[1].cast().0.0), false)
    }
}
