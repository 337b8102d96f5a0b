//! Owned host memory for results.
//!
//! The cost of a large fresh buffer is its page faults, so one of 2 MiB or more is aligned to huge
//! pages and asks the kernel for them before it is touched.

use std::alloc::Layout;
use std::ptr::NonNull;

/// The alignment of every buffer, in bytes: what XLA and TensorFlow need to share it.
pub const ALIGNMENT: usize = 64;

const HUGE_PAGE: usize = 2 << 20;

/// A buffer of this size cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot allocate {bytes} bytes of host memory")]
pub struct AllocError {
    /// The size that was asked for.
    pub bytes: usize,
}

/// An owned allocation with contents that are not initialised, freed when it is dropped.
///
/// It hands out raw pointers only: whoever reads must have written before.
#[derive(Debug)]
pub struct HostBuffer {
    pointer: NonNull<u8>,
    len: usize,
    layout: Layout,
}

// SAFETY: the buffer owns its memory alone, and the global allocator frees from any thread.
unsafe impl Send for HostBuffer {}
// SAFETY: a shared reference gives a pointer and a length, and no access to the memory.
unsafe impl Sync for HostBuffer {}

impl HostBuffer {
    /// Allocates this many bytes, aligned to [`ALIGNMENT`].
    ///
    /// # Errors
    ///
    /// [`AllocError`] if the size is beyond `isize::MAX` or the allocator refuses it.
    pub fn new(bytes: usize) -> Result<HostBuffer, AllocError> {
        let alignment = if bytes >= HUGE_PAGE { HUGE_PAGE } else { ALIGNMENT };
        let layout =
            Layout::from_size_align(bytes.max(1), alignment).map_err(|_| AllocError { bytes })?;
        // SAFETY: the size of the layout is at least one.
        let pointer = NonNull::new(unsafe { std::alloc::alloc(layout) });
        let pointer = pointer.ok_or(AllocError { bytes })?;
        if bytes >= HUGE_PAGE {
            advise_huge_pages(pointer, bytes);
        }
        Ok(HostBuffer { pointer, len: bytes, layout })
    }

    /// The first byte; well aligned and not to be read where `len` is zero.
    pub fn as_ptr(&self) -> *const u8 {
        self.pointer.as_ptr()
    }

    /// The first byte, for writing.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.pointer.as_ptr()
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Drop for HostBuffer {
    fn drop(&mut self) {
        // SAFETY: the pointer came from the global allocator with this layout and is freed here only.
        unsafe { std::alloc::dealloc(self.pointer.as_ptr(), self.layout) }
    }
}

#[cfg(target_os = "linux")]
fn advise_huge_pages(pointer: NonNull<u8>, bytes: usize) {
    // Whole huge pages only: the rest of the last one may belong to another allocation.
    let whole = bytes / HUGE_PAGE * HUGE_PAGE;
    // SAFETY: the range lies in an allocation that we own, and the advice changes no contents.
    // A refusal leaves small pages, which are slower and as correct.
    unsafe { libc::madvise(pointer.as_ptr().cast(), whole, libc::MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn advise_huge_pages(_pointer: NonNull<u8>, _bytes: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_aligned_and_writable_to_its_last_byte() {
        for bytes in [0, 1, 63, 64, 4097, HUGE_PAGE - 1, HUGE_PAGE, 2 * HUGE_PAGE + 1] {
            let mut buffer = HostBuffer::new(bytes).unwrap();
            assert_eq!(buffer.len(), bytes);
            assert_eq!(buffer.is_empty(), bytes == 0);
            assert_eq!(buffer.as_ptr() as usize % ALIGNMENT, 0);
            // SAFETY: the buffer has this many bytes, and they are written before they are read.
            unsafe {
                buffer.as_mut_ptr().write_bytes(0xa5, bytes);
                let written = std::slice::from_raw_parts(buffer.as_ptr(), bytes);
                assert!(written.iter().all(|byte| *byte == 0xa5));
            }
        }
    }

    #[test]
    fn an_absurd_size_is_an_error() {
        for bytes in [usize::MAX, isize::MAX as usize, isize::MAX as usize + 1, 1 << 60] {
            assert_eq!(HostBuffer::new(bytes).unwrap_err(), AllocError { bytes });
        }
    }

    #[test]
    fn a_buffer_moves_between_threads() {
        let buffer = HostBuffer::new(HUGE_PAGE).unwrap();
        std::thread::spawn(move || drop(buffer)).join().unwrap();
    }
}
