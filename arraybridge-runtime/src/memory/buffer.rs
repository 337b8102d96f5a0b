//! Memory that an object hands out by the buffer protocol.

use std::ffi::CStr;

use dlpark::ffi::DLDevice;

use crate::host::dtype::DType;
use crate::interpreter::held::HeldBuffer;
use crate::memory::source::{Owner, Slot};
use crate::memory::view::View;

/// A buffer whose element type has no name here, or another size than the one that was asked for.
pub struct UnknownFormat;

/// Describes a buffer in `slot`. Its element type is the given one, if the sizes agree, or the one that
/// its format names without doubt: a float or a complex number.
///
/// # Errors
///
/// [`UnknownFormat`] when neither is so.
#[inline]
pub fn describe(
    buffer: HeldBuffer,
    dtype: Option<DType>,
    slot: &mut Slot,
) -> Result<(), UnknownFormat> {
    let describe = |buffer: &HeldBuffer, view: &mut View| describe_in(buffer, dtype, view);
    // SAFETY: the exporter keeps the memory where it is until the buffer is released, and the view is
    // read-only where the exporter says so.
    unsafe { slot.describe_by(buffer, Owner::Exported, describe) }
}

#[inline]
fn describe_in(
    buffer: &HeldBuffer,
    dtype: Option<DType>,
    view: &mut View,
) -> Result<(), UnknownFormat> {
    let buffer = buffer.get();
    let ndim = buffer.ndim as usize;
    let dtype = dtype.or_else(|| named_by(buffer.format)).ok_or(UnknownFormat)?;
    if buffer.itemsize as usize != dtype.size() || (ndim > 0 && buffer.strides.is_null()) {
        return Err(UnknownFormat);
    }
    // SAFETY: shape and strides were asked for, have `ndim` entries, and live as long as the buffer;
    // they and the address are what the exporter says of its elements.
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

/// The element type of a format, where it is a float or a complex number.
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
