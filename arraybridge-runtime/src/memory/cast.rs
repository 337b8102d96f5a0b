//! Casts of host arrays, with the exact kernels of [`host::cast`].

use pyo3::prelude::*;

use crate::host::buffer::HostBuffer;
use crate::host::cast::{Scaling, Strided, cast_strided};
use crate::host::dtype::DType;
use crate::host::layout::contiguous_strides;
use crate::host::{self, layout};
use crate::interpreter::error::{Error, Result};
use crate::memory::view::{Owner, Source, View};

/// Work on at least this many bytes lets other Python threads run meanwhile. It takes tens of
/// microseconds; to let go of the interpreter and take it again takes a tenth of one.
pub const DETACH_FROM: usize = 1 << 18;

/// The values of a host array as another element type, in fresh, contiguous memory; and how many of
/// them the type could not hold. One pass, whatever the layout.
///
/// # Errors
///
/// `MemoryError` when there is no memory for the result; [`Error::Value`] for complex to real.
pub fn cast(
    py: Python<'_>,
    source: &Source,
    dtype: DType,
    scaling: Scaling,
) -> Result<(Source, u64)> {
    let view = &source.view;
    let bytes = layout::contiguous_bytes(&view.shape, dtype.size()).unwrap_or(usize::MAX);
    let mut buffer = HostBuffer::new(bytes).map_err(no_memory)?;
    let large = bytes.max(view.nbytes()) >= DETACH_FROM;
    // Raw pointers do not cross `detach`; addresses do.
    let (to, from) = (buffer.as_mut_ptr() as usize, view.data as usize);
    let (shape, strides, swap) = (&view.shape[..], &view.strides[..], view.swap_unit());
    let from_dtype = view.dtype;
    let work = || {
        let data = from as *const u8;
        let source = Strided { data, shape, strides, dtype: from_dtype, swap };
        let threads = if large { host::threads() } else { 1 };
        // SAFETY: the buffer has the bytes of the contiguous result, and the view describes memory
        // that its owner keeps alive until after this call.
        unsafe { cast_strided(to as *mut u8, dtype, source, scaling, threads) }
    };
    let report = if large { py.detach(work) } else { work() };
    let report = report.map_err(|error| Error::Value(error.to_string()))?;
    let view = View {
        data: buffer.as_mut_ptr(),
        strides: contiguous_strides(&view.shape, dtype.size()),
        shape: view.shape.clone(),
        dtype,
        read_only: false,
        swapped: false,
        device: dlpark::ffi::DLDevice::CPU,
    };
    Ok((Source { view, owner: Owner::Buffer(buffer) }, report.clipped))
}

/// A failed allocation as Python's own exception.
pub fn no_memory(error: host::buffer::AllocError) -> Error {
    Error::Python(pyo3::exceptions::PyMemoryError::new_err(error.to_string()))
}
