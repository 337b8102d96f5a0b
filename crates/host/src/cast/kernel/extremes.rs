//! The search for the extremes of an array.

use super::Extremes;
use crate::dtype::DType;

with_avx2! {
    /// # Safety
    ///
    /// The conditions of [`Extremes`].
    unsafe fn extremes<F: Float>(src: *const u8, len: usize) -> (f64, f64) {
        extremes_generic::<F>, or extremes_generic::<F>
    }
}

/// The extremes that are found side by side. One search would wait for each comparison before the next, and LLVM
/// does not split it, since that changes which zero or NaN is found.
const LANES: usize = 16;

/// # Safety
///
/// The conditions of [`Extremes`].
#[inline(always)]
unsafe fn extremes_generic<F: Float>(src: *const u8, len: usize) -> (f64, f64) {
    let src = src.cast::<F>();
    let (mut low, mut high) = ([F::INFINITY; LANES], [F::NEG_INFINITY; LANES]);
    let whole = len / LANES * LANES;
    for start in (0..whole).step_by(LANES) {
        for lane in 0..LANES {
            // SAFETY: the element is one of `len`. No alignment is assumed.
            let x = unsafe { src.add(start + lane).read_unaligned() };
            (low[lane], high[lane]) = widened((low[lane], high[lane]), x);
        }
    }
    let mut all = (F::INFINITY, F::NEG_INFINITY);
    for x in low.into_iter().chain(high) {
        all = widened(all, x);
    }
    for i in whole..len {
        // SAFETY: `i` is less than `len`. No alignment is assumed.
        all = widened(all, unsafe { src.add(i).read_unaligned() });
    }
    (all.0.into(), all.1.into())
}

/// The extremes with one more number, if it is finite.
#[inline(always)]
fn widened<F: Float>((low, high): (F, F), x: F) -> (F, F) {
    // NaN fails the comparisons.
    let x = x.or_nan();
    (if x < low { x } else { low }, if x > high { x } else { high })
}

/// The parts of `f32` and `f64` that the search needs.
trait Float: Copy + PartialOrd + Into<f64> {
    const INFINITY: Self;
    const NEG_INFINITY: Self;
    /// The number if it is finite, and NaN otherwise.
    fn or_nan(self) -> Self;
}

macro_rules! floats {
    ($($float:ident)*) => {$(
        impl Float for $float {
            const INFINITY: $float = $float::INFINITY;
            const NEG_INFINITY: $float = $float::NEG_INFINITY;

            #[inline(always)]
            fn or_nan(self) -> $float {
                self + 0.0 * self
            }
        }
    )*};
}

floats! { f32 f64 }

/// The search for the extremes of these two element types.
pub(in super::super) fn extremes_of(dtype: DType) -> Option<Extremes> {
    match dtype {
        DType::Float32 => Some(extremes::<f32>),
        DType::Float64 => Some(extremes::<f64>),
        _ => None,
    }
}
