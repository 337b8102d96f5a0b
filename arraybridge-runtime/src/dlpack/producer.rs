//! Host memory as a Python object that other libraries import.

use dlpark::ffi::DLDeviceType;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;

use crate::interpreter::held::Held;
use arraybridge_tensor::dlpack::managed;
use arraybridge_tensor::memory::source::{SharedSource, Source};

/// Host memory with the methods of the DLPack protocol, for the `from_dlpack` functions of frameworks.
///
/// The object and each of its exports keep the memory alive.
#[pyclass(frozen, module = "arraybridge", name = "_HostArray")]
pub struct Producer(Held<SharedSource>);

impl Producer {
    /// Wraps a source.
    pub fn new(source: Source) -> Producer {
        Producer(SharedSource::from(source).into())
    }
}

#[pymethods]
impl Producer {
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(u32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if stream.is_some() {
            return Err(PyValueError::new_err("stream must be None for host memory"));
        }
        let own = self.__dlpack_device__();
        if dl_device.is_some_and(|device| device != own && device != (DLDeviceType::CPU.0, 0)) {
            return Err(PyBufferError::new_err("host memory can only be exported to the host"));
        }
        if copy == Some(true) {
            return Err(PyBufferError::new_err("this object shares its memory and cannot copy it"));
        }
        let source = self.0.source();
        if max_version.is_some_and(|(major, _)| major >= 1) {
            source.hand_over(managed::versioned).into_pyobject(py)
        } else {
            source.hand_over(managed::legacy).into_pyobject(py)
        }
    }

    fn __dlpack_device__(&self) -> (u32, i32) {
        let device = self.0.view().device();
        (device.device_type.0, device.device_id)
    }
}
