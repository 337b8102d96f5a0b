//! Cache lines that are asked for early, and writes that bypass the caches.

/// The size of a result from which on writing it would evict everything else from the caches, so
/// that they are bypassed.
pub(super) const STREAM_MIN: usize = 16 << 20;

/// The bytes of a cache line.
pub(super) const LINE: usize = 64;

/// Asks for the cache lines of a range that is read soon.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn prefetch(start: *const u8, bytes: usize) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    for line in (0..bytes).step_by(LINE) {
        // SAFETY: a prefetch of any address is harmless.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(line).cast()) };
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn prefetch(_start: *const u8, _bytes: usize) {}

/// Copies whole cache lines and bypasses the caches, so that the target's lines are not read before they are
/// written.
///
/// # Safety
///
/// Both pointers are valid for the bytes, and the target starts on a cache line. They do not overlap.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) unsafe fn stream(dst: *mut u8, src: *const u8, bytes: usize) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    for at in (0..bytes).step_by(size_of::<__m128i>()) {
        // SAFETY: the addresses are inside both ranges, and aligned.
        unsafe { _mm_stream_si128(dst.add(at).cast(), _mm_loadu_si128(src.add(at).cast())) };
    }
}

/// Copies bytes. Whole cache lines of the target bypass the caches.
///
/// # Safety
///
/// Both pointers are valid for the bytes. They do not overlap.
#[inline(always)]
pub(super) unsafe fn write(dst: *mut u8, src: *const u8, bytes: usize) {
    let head = (dst.addr().wrapping_neg() % LINE).min(bytes);
    let lines = (bytes - head) / LINE * LINE;
    // SAFETY: the three parts are the bytes, and the second one starts on a cache line.
    unsafe {
        if head > 0 {
            dst.copy_from_nonoverlapping(src, head);
        }
        stream(dst.add(head), src.add(head), lines);
        let rest = bytes - head - lines;
        if rest > 0 {
            dst.add(head + lines).copy_from_nonoverlapping(src.add(head + lines), rest);
        }
    }
}

/// Orders streamed writes before later ones, as ordinary writes are.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn finish_stream() {
    // SAFETY: a fence has no preconditions.
    unsafe { std::arch::x86_64::_mm_sfence() };
}

/// # Safety
///
/// Both pointers are valid for the bytes. They do not overlap.
#[cfg(not(target_arch = "x86_64"))]
pub(super) unsafe fn stream(dst: *mut u8, src: *const u8, bytes: usize) {
    // SAFETY: both pointers are valid for the bytes, which do not overlap.
    unsafe { dst.copy_from_nonoverlapping(src, bytes) };
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn finish_stream() {}
