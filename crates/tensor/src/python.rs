//! Tensors and errors as Python's objects, by PyO3, in the way of the process's [`Binding`](crate::binding::Binding).

use pyo3::exceptions::{PyImportError, PyMemoryError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::binding::{self, PythonBinding};
use crate::error::Error;
use crate::tensor::Tensor;

fn python() -> PyResult<&'static PythonBinding> {
    let binding = binding::get().ok_or_else(|| {
        PyImportError::new_err("tensors of Python's arrays need the crate arraybridge-runtime")
    });
    binding.map(|binding| &binding.python)
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
