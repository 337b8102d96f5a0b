//! The search for integers that a type of floats does not have.

use super::loops::CHUNK;
#[cfg(target_arch = "x86_64")]
use crate::processor::has_avx2;

/// # Safety
///
/// The conditions of [`Rounded`](super::Rounded).
pub(super) unsafe fn rounded<I: Integer>(src: *const u8, len: usize, bits: u32) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: the processor has the features, and the source holds the elements.
        return unsafe { rounded_avx2::<I>(src, len, bits) };
    }
    // SAFETY: the source holds the elements.
    unsafe { rounded_generic::<I>(src, len, bits) }
}

/// # Safety
///
/// The conditions of [`Rounded`](super::Rounded), on a processor with these features.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn rounded_avx2<I: Integer>(src: *const u8, len: usize, bits: u32) -> u64 {
    // SAFETY: the source holds the elements.
    unsafe { rounded_generic::<I>(src, len, bits) }
}

/// # Safety
///
/// The conditions of [`Rounded`](super::Rounded).
#[inline(always)]
unsafe fn rounded_generic<I: Integer>(src: *const u8, len: usize, bits: u32) -> u64 {
    let src = src.cast::<I>();
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

pub(super) trait Integer: Copy {
    /// Returns whether more than this many bits lie between the highest and the lowest bit that is
    /// set.
    fn has_more_bits(self, bits: u32) -> bool;
}

macro_rules! integers {
    ($($int:ident)*) => {$(
        impl Integer for $int {
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
