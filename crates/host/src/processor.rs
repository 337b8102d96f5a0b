//! The features of the processor, beyond those of every x86-64 processor.

/// Returns whether there are vectors of 32 bytes, multiplications fused with additions, and casts from `f32` to float16.
#[inline]
pub(super) fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
}
