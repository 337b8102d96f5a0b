//! The features of the processor, beyond those of every x86-64 processor.

/// Returns whether there are vectors of 32 bytes, and multiplications fused with additions.
#[inline]
pub(super) fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}
