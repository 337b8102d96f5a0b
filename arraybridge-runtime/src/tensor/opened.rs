//! Tensors of memory that was opened.

use arraybridge_tensor::tensor::Tensor;
use pyo3::prelude::*;

use crate::c_api;
use crate::convert::{self, Opened};
use crate::error::Result;

/// A tensor of an array's memory. Memory that DLPack cannot describe is copied.
///
/// # Errors
///
/// [`Error::Memory`](crate::error::Error::Memory) if the allocation fails.
pub fn from_opened(py: Python<'_>, opened: Opened) -> Result<Tensor> {
    // The memory is claimed while it is read, toward all modules.
    c_api::join_if_present(py);
    let view = opened.source.view();
    let readable = !view.is_on_host() || view.can_be_read();
    let opened = if readable { opened } else { convert::fresh(py, opened, None)? };
    Ok(opened.source.into())
}
