//! NumPy arrays as described memory, and the way back.

use numpy::PyUntypedArray;
use pyo3::prelude::*;

use super::slot::Opened;
use crate::framework::generated::MemoryType;
use crate::framework::loaded;
use crate::interpreter::error::{Failure, Result};
use crate::memory::numpy_array::{self, UnknownDtype};
use arraybridge_tensor::memory::source::{Outgoing, Source};

/// A NumPy array of a source's memory.
///
/// # Errors
///
/// [`Failure::Dtype`] when the dtype comes from ml_dtypes and that is not installed.
pub fn wrap_numpy<'py>(py: Python<'py>, source: Source) -> Result<Bound<'py, PyAny>> {
    source.hand_over(|memory| wrap(py, memory))
}

pub(super) fn wrap<'py>(py: Python<'py>, memory: Outgoing<'_>) -> Result<Bound<'py, PyAny>> {
    let numpy = loaded::load(py, MemoryType::Numpy.framework())?;
    let dtype = memory.view().dtype();
    numpy_array::wrap(py, memory, |dtype| numpy.dtype_object(dtype))?.ok_or_else(|| {
        let reason = format!("NumPy has {dtype} only through `pip install ml_dtypes`");
        numpy.framework.error(Failure::Dtype, "dtype", reason)
    })
}

pub(super) fn read_numpy(array: &Bound<'_, PyUntypedArray>, private: bool) -> Result<Opened> {
    match numpy_array::source(array) {
        Ok(source) => Ok(Opened { source, private }),
        Err(UnknownDtype(dtype)) => {
            let reason = format!(
                "arraybridge does not convert NumPy's dtype {dtype}; cast the array with astype first"
            );
            Err(MemoryType::Numpy.framework().error(Failure::Dtype, "dtype", reason))
        }
    }
}
