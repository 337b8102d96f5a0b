//! Owned host memory for results.
//!
//! The cost of a large new buffer is its page faults. A buffer of 2 MiB or more therefore asks the kernel for huge
//! pages before it is written, and is aligned to them. On the main thread, only the largest are aligned: there,
//! glibc keeps what is freed for the next buffer of its size, which has no faults at all, but not if it was aligned.
//! For other threads it keeps nothing.

use std::alloc::Layout;
use std::ptr::NonNull;

/// The alignment of every buffer, in bytes: what XLA and TensorFlow need to share it.
pub const ALIGNMENT: usize = 64;

/// The alignment of `malloc` on every platform with 64 bits.
const MALLOC_ALIGNMENT: usize = 16;

const HUGE_PAGE: usize = 2 << 20;

/// The size from which glibc maps every buffer and returns it to the kernel
/// (`DEFAULT_MMAP_THRESHOLD_MAX`).
const MAPPED: usize = 32 << 20;

/// A buffer cannot be allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot allocate {bytes} bytes of host memory")]
pub struct AllocError {
    /// The size in bytes.
    pub bytes: usize,
}

/// An owned, uninitialised allocation.
///
/// It only gives raw pointers: what is read must have been written before.
#[derive(Debug)]
pub struct HostBuffer {
    pointer: NonNull<u8>,
    len: usize,
    /// The allocated block.
    block: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the buffer owns its memory, which any thread may free.
unsafe impl Send for HostBuffer {}
// SAFETY: a shared reference gives a pointer and a length, but no access to the memory.
unsafe impl Sync for HostBuffer {}

impl HostBuffer {
    /// Allocates this many bytes, aligned to [`ALIGNMENT`].
    ///
    /// # Errors
    ///
    /// [`AllocError`] if the size exceeds `isize::MAX` or the allocation fails.
    pub fn new(bytes: usize) -> Result<HostBuffer, AllocError> {
        let is_aligned = bytes >= HUGE_PAGE && !(bytes < MAPPED && keeps_what_is_freed());
        // glibc does not find the block that was just freed again if it is asked to align: it looks for one with room
        // for every place. So `malloc` gets the room, and the place in it is ours.
        let (alignment, room) = match is_aligned {
            true => (HUGE_PAGE, 0),
            false => (MALLOC_ALIGNMENT, ALIGNMENT - MALLOC_ALIGNMENT),
        };
        let size = bytes.max(1).checked_add(room).ok_or(AllocError { bytes })?;
        let layout = Layout::from_size_align(size, alignment).map_err(|_| AllocError { bytes })?;
        // SAFETY: the layout's size is not zero.
        let block = NonNull::new(unsafe { std::alloc::alloc(layout) });
        let block = block.ok_or(AllocError { bytes })?;
        let offset = block.addr().get().next_multiple_of(ALIGNMENT) - block.addr().get();
        // SAFETY: the block begins at a multiple of its alignment, so that the offset is at most the room.
        let pointer = unsafe { block.add(offset) };
        if bytes >= HUGE_PAGE {
            advise_huge_pages(pointer, bytes);
        }
        Ok(HostBuffer { pointer, len: bytes, block, layout })
    }

    /// The address of the first byte, which is aligned to [`ALIGNMENT`] also if there are no bytes.
    pub fn as_ptr(&self) -> *const u8 {
        self.pointer.as_ptr()
    }

    /// The address of the first byte, for writing.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.pointer.as_ptr()
    }

    /// The size in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the size is zero.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Drop for HostBuffer {
    fn drop(&mut self) {
        // SAFETY: the block was allocated with this layout, and is freed only here.
        unsafe { std::alloc::dealloc(self.block.as_ptr(), self.layout) }
    }
}

/// Returns whether the allocator keeps freed memory of middling size for the next buffer of this
/// thread.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn keeps_what_is_freed() -> bool {
    // SAFETY: the calls have no conditions. The main thread has the number of its process.
    unsafe { libc::gettid() == libc::getpid() }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn keeps_what_is_freed() -> bool {
    false
}

#[cfg(target_os = "linux")]
fn advise_huge_pages(pointer: NonNull<u8>, bytes: usize) {
    // Whole pages only: the rest of the last one may belong to another allocation.
    let start = pointer.addr().get().next_multiple_of(HUGE_PAGE);
    let end = (pointer.addr().get() + bytes) / HUGE_PAGE * HUGE_PAGE;
    if start < end {
        let first = pointer.as_ptr().with_addr(start);
        // SAFETY: the range is in an allocation of ours, and the advice does not change its contents. If the
        // kernel refuses, the pages are small, which is only slower.
        unsafe { libc::madvise(first.cast(), end - start, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
fn advise_huge_pages(_pointer: NonNull<u8>, _bytes: usize) {}

#[cfg(test)]
mod tests;
