//! In place of the driver, in a build without the feature `cuda`: what would call it is an error. In Rust, device
//! memory passes through as it is, since whoever made it has ordered the work on it.

use crate::error::{Error, Result};

const WHY: &str =
    "this extension was built without CUDA; enable the feature `cuda` of arraybridge-runtime";

/// The reason why there is no driver in this build.
pub const MISSING: Option<&str> = Some(WHY);

/// The error that every call of the driver gives.
pub fn missing<T>() -> Result<T> {
    Err(Error::Cuda(WHY.into()))
}

/// There are no streams.
#[derive(Clone)]
pub enum SharedStream {}

/// The handle of a stream.
pub fn handle(stream: &SharedStream) -> usize {
    match *stream {}
}

/// There are no contexts.
pub enum PreviousContext {}

impl PreviousContext {
    /// The device of a context.
    pub fn device(&self) -> Option<usize> {
        match *self {}
    }
}

/// Would make the thread's context current again later.
pub fn keep_current() -> Option<PreviousContext> {
    None
}

/// Would keep the context of a device.
pub fn keep_context(_index: usize) {}

/// Would order two streams.
///
/// # Safety
///
/// There is nothing to keep.
pub unsafe fn order(_index: usize, _first: usize, _second: usize) -> Result<()> {
    missing()
}

/// Would wait for a stream.
pub fn wait_for_legacy_stream(_index: usize) -> Result<()> {
    missing()
}

/// Would wait for a device.
pub fn wait_for_device(_index: usize) -> Result<()> {
    missing()
}

/// Would copy memory to the host.
///
/// # Safety
///
/// There is nothing to keep.
pub unsafe fn download(
    _index: usize,
    _stream: usize,
    _from: *const u8,
    _to: &mut [u8],
) -> Result<()> {
    missing()
}

/// Would copy memory within a device.
///
/// # Safety
///
/// There is nothing to keep.
pub unsafe fn copy(
    _index: usize,
    _stream: usize,
    _from: *const u8,
    _to: *mut u8,
    _len: usize,
) -> Result<()> {
    missing()
}

/// Would say which device is current.
pub fn current() -> Result<usize> {
    missing()
}

/// Would make a device's context current.
pub fn set_current(_index: usize) -> Result<PreviousContext> {
    missing()
}

/// Would make a stream of a handle.
///
/// # Safety
///
/// There is nothing to keep.
pub unsafe fn borrowed_stream(_index: usize, _handle: usize) -> Result<SharedStream> {
    missing()
}
