//! The search for numbers that a type of floats does not have.

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
    /// set. A float is compared with the bits of `f32`.
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
        debug_assert_eq!(bits, f32::MANTISSA_DIGITS);
        // Also if a thread flushes the `f32` to zero.
        f64::from(self as f32) != self
    }
}
