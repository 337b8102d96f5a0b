//! Tensors and errors as Python's objects, by PyO3, in the way of the process's [`PythonBinding`].

use pyo3::exceptions::{PyImportError, PyMemoryError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::error::Error;
use crate::tensor::Tensor;

/// How Python's objects are made and read. A crate that knows the frameworks submits one with `inventory`.
pub struct PythonBinding {
    /// An error as an exception.
    pub raise: fn(Error) -> PyErr,
    /// A tensor of an object's memory.
    pub tensor_of: fn(&Bound<'_, PyAny>) -> PyResult<Tensor>,
    /// An object of a tensor's memory.
    pub object_of: for<'py> fn(Python<'py>, Tensor) -> PyResult<Bound<'py, PyAny>>,
}

inventory::collect!(PythonBinding);

fn python() -> PyResult<&'static PythonBinding> {
    inventory::iter::<PythonBinding>.into_iter().next().ok_or_else(|| {
        PyImportError::new_err("tensors of Python's arrays need the crate arraybridge-runtime")
    })
}

impl Tensor {
    /// A tensor of the memory of any framework's array, or of any object that exports it by DLPack. Only
    /// memory that DLPack cannot describe is copied. An array that requires a gradient is detached, with a
    /// `GradientDetachedWarning`.
    ///
    /// # Errors
    ///
    /// A `MemoryConversionError` that says why the object cannot be read.
    pub fn from_py(data: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        (python()?.tensor_of)(data)
    }
}

impl<'py> FromPyObject<'_, 'py> for Tensor {
    type Error = PyErr;

    fn extract(data: Borrowed<'_, 'py, PyAny>) -> PyResult<Tensor> {
        Tensor::from_py(&data)
    }
}

impl<'py> IntoPyObject<'py> for Tensor {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        (python()?.object_of)(py, self)
    }
}

impl<'py> IntoPyObject<'py> for &Tensor {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.clone().into_pyobject(py)
    }
}

impl From<Error> for PyErr {
    fn from(error: Error) -> PyErr {
        if let Ok(python) = python() {
            return (python.raise)(error);
        }
        let text = error.to_string();
        match error {
            Error::Value(_) | Error::Aliased(_) => PyValueError::new_err(text),
            Error::Type(_) => PyTypeError::new_err(text),
            Error::Memory(_) | Error::DeviceMemory(_) => PyMemoryError::new_err(text),
            Error::Cuda(_) => PyRuntimeError::new_err(text),
        }
    }
}
