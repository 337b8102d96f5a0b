//! The search for the extremes of an array.

use super::Extremes;
use super::loops::{CHUNK, has_avx2};
use crate::host::dtype::DType;

/// # Safety
///
/// As for [`Extremes`].
unsafe fn extremes<F: Float>(src: *const u8, len: usize) -> (f64, f64) {
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: the processor has the features, and the source holds the elements.
        return unsafe { extremes_avx2::<F>(src, len) };
    }
    // SAFETY: the source holds the elements.
    unsafe { extremes_generic::<F>(src, len) }
}

/// # Safety
///
/// As for [`Extremes`], on a processor with these features.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn extremes_avx2<F: Float>(src: *const u8, len: usize) -> (f64, f64) {
    // SAFETY: the source holds the elements.
    unsafe { extremes_generic::<F>(src, len) }
}

/// # Safety
///
/// As for [`Extremes`].
#[inline(always)]
unsafe fn extremes_generic<F: Float>(src: *const u8, len: usize) -> (f64, f64) {
    let src = src.cast::<F>();
    let (mut low, mut high) = (F::TOP, F::BOTTOM);
    for start in (0..len).step_by(CHUNK) {
        // These stand in for values that are not finite. They are variables, since LLVM does not recognise a
        // minimum with a constant in it.
        let (top, bottom) = (low, high);
        for i in start..len.min(start + CHUNK) {
            // SAFETY: `i` is less than `len`. No alignment is assumed.
            let x = unsafe { src.add(i).read_unaligned() };
            let (key, finite) = (x.key(), x.finite());
            low = low.min(if finite { key } else { top });
            high = high.max(if finite { key } else { bottom });
        }
    }
    if low > high { (f64::INFINITY, f64::NEG_INFINITY) } else { (F::value(low), F::value(high)) }
}

/// What the search needs of `f32` and `f64`: integers in the same order, since LLVM may reorder a search among
/// integers only.
trait Float: Copy {
    type Key: Copy + Ord;
    const TOP: Self::Key;
    const BOTTOM: Self::Key;
    /// An integer that is greater for a greater number.
    fn key(self) -> Self::Key;
    fn finite(self) -> bool;
    /// The number with this key.
    fn value(key: Self::Key) -> f64;
}

macro_rules! floats {
    ($($float:ident $int:ident)*) => {$(
        impl Float for $float {
            type Key = $int;
            const TOP: $int = $int::MAX;
            const BOTTOM: $int = $int::MIN;

            #[inline(always)]
            fn key(self) -> $int {
                let bits = self.to_bits() as $int;
                // The bits of negative numbers are in reverse order: flip all but the sign.
                bits ^ (bits >> ($int::BITS - 1) & $int::MAX)
            }

            #[inline(always)]
            fn finite(self) -> bool {
                self.abs() < $float::INFINITY
            }

            fn value(key: $int) -> f64 {
                // The key of the key is the number's bits.
                f64::from($float::from_bits($float::from_bits(key as _).key() as _))
            }
        }
    )*};
}

floats! { f32 i32 f64 i64 }

/// The search for the extremes of these two element types.
pub(in super::super) fn extremes_of(dtype: DType) -> Option<Extremes> {
    match dtype {
        DType::Float32 => Some(extremes::<f32>),
        DType::Float64 => Some(extremes::<f64>),
        _ => None,
    }
}
