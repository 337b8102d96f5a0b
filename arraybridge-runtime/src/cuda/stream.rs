//! The stream that a declared Rust function takes.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use cudarc::driver::CudaStream;

use crate::framework::device::Device;
use crate::interpreter::detached::DetachedRef;
use crate::interpreter::error::Result;
use arraybridge_tensor::cuda::driver::{self, SharedStream};

/// The CUDA stream of a call, which a declared function takes as `&Stream`.
///
/// It is the current stream of the declared framework on the calling thread. The function puts its own work
/// on this stream, or on other streams that it joins to this one before it returns. It does not have to wait
/// for the work to finish. The device's context is current on the thread.
///
/// It dereferences to cudarc's `Arc<CudaStream>`, with `launch_builder`, `memcpy_dtod`, `context`, `fork` and
/// so on. A clone of that keeps the stream alive.
#[derive(Debug)]
pub struct Stream(Arc<CudaStream>);

impl Stream {
    /// # Safety
    ///
    /// The handle is that of a stream on this device, which lives as long as the owner.
    pub unsafe fn new(
        index: usize,
        handle: usize,
        owner: impl FnOnce() -> DetachedRef,
    ) -> Result<Stream> {
        // SAFETY: the handle is that of a stream on this device, which lives as long as the owner.
        unsafe { owned_stream(index, handle, owner) }.map(Stream)
    }

    /// The stream of a compiled program, which lives as long as the process.
    pub(crate) fn of_program(stream: SharedStream) -> Stream {
        Stream(stream)
    }

    /// The handle as a number, as other libraries take it; 1 for the legacy default stream.
    pub fn handle(&self) -> usize {
        self.0.cu_stream() as usize
    }

    /// The index of the stream's device.
    pub fn index(&self) -> usize {
        self.0.context().ordinal()
    }

    /// The stream's device.
    pub fn device(&self) -> Device {
        Device::Accelerator(self.index())
    }
}

impl Deref for Stream {
    type Target = Arc<CudaStream>;

    fn deref(&self) -> &Arc<CudaStream> {
        &self.0
    }
}

/// A stream that somebody else owns: its device, its handle, cudarc's object for it, and its owner.
type BorrowedStream = (usize, usize, Weak<CudaStream>, DetachedRef);

pub(super) static BORROWED: Mutex<Vec<BorrowedStream>> = Mutex::new(Vec::new());

/// A stream that somebody else owns, as cudarc's type. The owner is kept alive as long as anything refers to
/// the result: memory is freed on the stream on which it was allocated.
///
/// # Safety
///
/// The handle is that of a stream on this device, which lives as long as the owner.
///
/// # Errors
///
/// The errors of [`driver::checked`].
unsafe fn owned_stream(
    index: usize,
    handle: usize,
    owner: impl FnOnce() -> DetachedRef,
) -> Result<SharedStream> {
    let (known, unused) = {
        let mut borrowed = BORROWED.lock().unwrap_or_else(PoisonError::into_inner);
        let find = |(device, other, stream, _): &BorrowedStream| match (*device, *other) {
            pair if pair == (index, handle) => stream.upgrade(),
            _ => None,
        };
        let known = borrowed.iter().find_map(find);
        let is_unused = |entry: &mut BorrowedStream| entry.2.strong_count() == 0;
        (known, borrowed.extract_if(.., is_unused).collect::<Vec<_>>())
    };
    // Dropping a stream object runs Python, so the lock is not held here.
    drop(unused);
    if let Some(stream) = known {
        return Ok(stream);
    }
    // SAFETY: the stream lives as long as its owner, which is kept.
    let stream = unsafe { driver::borrowed_stream(index, handle) }?;
    let entry = (index, handle, Arc::downgrade(&stream), owner());
    BORROWED.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
    Ok(stream)
}
