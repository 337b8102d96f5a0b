//! Tensors of Python's arrays, and arrays of tensors.

use arraybridge_tensor::binding::Binding;
use arraybridge_tensor::dlpack::LEGACY_STREAM;
use arraybridge_tensor::python::PythonBinding;
use arraybridge_tensor::tensor::Tensor;
use pyo3::prelude::*;

use super::class;
use super::opened::from_opened;
use crate::c_api;
use crate::convert::{self, Opened, Request};
use crate::error::{Error, Result};
use crate::framework::generated::MemoryType;
use crate::framework::spec::Framework;
use crate::interpreter::{detached, fork};

inventory::submit! {
    Binding {
        wait: |wait| detached::wait_detached(wait),
        // If there is an interpreter.
        find_casts: || {
            let _ = Python::try_attach(c_api::join_if_present);
        },
        lost_cuda: fork::LOST_CUDA,
    }
}

inventory::submit! {
    PythonBinding {
        raise: |error| Error::from(error).into(),
        tensor_of: |data| Ok(of_object(data)?),
        object_of: class::into_object,
    }
}

/// A tensor of an object's memory.
fn of_object(data: &Bound<'_, PyAny>) -> Result<Tensor> {
    let opened = convert::open_to_hold(data, LEGACY_STREAM)?;
    convert::warn_if_detached(data, MemoryType::Numpy.framework())?;
    from_opened(data.py(), opened)
}

/// A tensor as an array of a framework.
///
/// # Errors
///
/// The errors of [`convert_to`](crate::convert::convert_to).
pub fn into_framework<'py>(
    tensor: Tensor,
    py: Python<'py>,
    target: &'static Framework,
    request: &Request,
) -> Result<Bound<'py, PyAny>> {
    if !tensor.description().is_on_host() {
        return convert::convert_to(&class::into_object(py, tensor)?, target, request);
    }
    let source = tensor.into_parts().0;
    let sole = source.owner().is_sole();
    let private = sole && !source.view().is_read_only();
    convert::deliver(py, Opened { source, private }, target, request)
}
