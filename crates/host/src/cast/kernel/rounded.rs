//! The search for numbers that a type of floats does not have.

use std::ops::RangeInclusive;

use super::loops::CHUNK;

with_avx2! {
    /// # Safety
    ///
    /// The conditions of [`Rounded`](super::Rounded).
    pub(super) unsafe fn rounded<S: Significant>(src: *const u8, len: usize, bits: u32) -> u64 {
        rounded_generic::<S>, or rounded_generic::<S>
    }
}

/// # Safety
///
/// The conditions of [`Rounded`](super::Rounded).
#[inline(always)]
unsafe fn rounded_generic<S: Significant>(src: *const u8, len: usize, bits: u32) -> u64 {
    let src = src.cast::<S>();
    let mut total = 0;
    for start in (0..len).step_by(CHUNK) {
        let mut found = 0_u32;
        for i in start..len.min(start + CHUNK) {
            // SAFETY: `i` is less than `len`. No alignment is assumed.
            let x = unsafe { src.add(i).read_unaligned() };
            found += u32::from(x.has_more_bits(bits));
        }
        total += u64::from(found);
    }
    total
}

pub(super) trait Significant: Copy {
    /// Returns whether more than this many bits lie between the highest and the lowest bit that is
    /// set. True for a float that is not finite, or beyond the normal numbers of `f32`.
    fn has_more_bits(self, bits: u32) -> bool;
}

macro_rules! integers {
    ($($int:ident)*) => {$(
        impl Significant for $int {
            #[inline(always)]
            fn has_more_bits(self, bits: u32) -> bool {
                let size = self.abs_diff(0);
                let lowest = size & size.wrapping_neg();
                // Zero has no lowest bit, and nothing exceeds the difference.
                size >> bits > lowest.wrapping_sub(1)
            }
        }
    )*};
}

integers! { u8 i8 u16 i16 u32 i32 u64 i64 }

impl Significant for f64 {
    #[inline(always)]
    fn has_more_bits(self, bits: u32) -> bool {
        const NORMAL: RangeInclusive<f64> = f32::MIN_POSITIVE as f64..=f32::MAX as f64;
        let cut = self.to_bits() & ((1 << (f64::MANTISSA_DIGITS - bits)) - 1) != 0;
        // By its bits, since a thread may take a subnormal number for zero.
        let is_zero = self.to_bits() << 1 == 0;
        cut | !(NORMAL.contains(&self.abs()) | is_zero)
    }
}
