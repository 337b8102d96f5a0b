//! Memory from the buffer protocol.

use std::ffi::CStr;

use dlpark::ffi::DLDevice;

use crate::interpreter::detached::DetachedBuffer;
use arraybridge_host::dtype::DType;
use arraybridge_tensor::memory::source::Slot;
use arraybridge_tensor::memory::view::View;

/// The element type of a buffer is unknown, or its size is not that of the expected one.
pub struct UnknownFormat;

/// Describes a buffer in `slot`. The element type is `dtype`; if that is `None`, it is taken from the
/// buffer's format, which is unambiguous for floats and complex numbers only.
///
/// # Errors
///
/// [`UnknownFormat`] for any other format, and if the buffer's elements have another size.
#[inline]
pub fn describe(
    buffer: DetachedBuffer,
    dtype: Option<DType>,
    slot: &mut Slot,
) -> Result<(), UnknownFormat> {
    let describe = |buffer: &DetachedBuffer, view: &mut View| describe_in(buffer, dtype, view);
    // SAFETY: the exporter keeps the memory in place until the buffer is released, and the view is
    // read-only if the exporter says so.
    unsafe { slot.describe_by(buffer, describe) }
}

#[inline]
fn describe_in(
    buffer: &DetachedBuffer,
    dtype: Option<DType>,
    view: &mut View,
) -> Result<(), UnknownFormat> {
    let buffer = buffer.get();
    let ndim = buffer.ndim as usize;
    let dtype = dtype.or_else(|| named_by(buffer.format)).ok_or(UnknownFormat)?;
    if buffer.itemsize as usize != dtype.size() || (ndim > 0 && buffer.strides.is_null()) {
        return Err(UnknownFormat);
    }
    // SAFETY: shape and strides were requested, so they have `ndim` entries and live as long as the
    // buffer. With the address they describe the exporter's memory.
    unsafe {
        let (shape, strides): (&[usize], &[isize]) = match ndim {
            0 => (&[], &[]),
            _ => (
                std::slice::from_raw_parts(buffer.shape.cast(), ndim),
                std::slice::from_raw_parts(buffer.strides, ndim),
            ),
        };
        view.set_axes(shape.iter().copied(), strides.iter().copied());
        view.set_elements(buffer.buf.cast(), dtype, DLDevice::CPU);
    }
    view.restrict(buffer.readonly != 0);
    Ok(())
}

/// The element type of a format, if it is a float or a complex number.
fn named_by(format: *const std::ffi::c_char) -> Option<DType> {
    if format.is_null() {
        return None;
    }
    // SAFETY: the exporter's format is a C string that lives as long as the buffer.
    let format = unsafe { CStr::from_ptr(format) }.to_bytes();
    let native: &[u8] = if cfg!(target_endian = "little") { b"@=<" } else { b"@=>" };
    let format = match format.split_first() {
        Some((order, rest)) if native.contains(order) => rest,
        _ => format,
    };
    match format {
        b"e" => Some(DType::Float16),
        b"f" => Some(DType::Float32),
        b"d" => Some(DType::Float64),
        b"Zf" => Some(DType::Complex64),
        b"Zd" => Some(DType::Complex128),
        _ => None,
    }
}
