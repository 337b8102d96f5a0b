//! An array on an accelerator as a Python object that other libraries import.

use dlpark::ffi::DLDevice;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::PyInt;

use crate::cuda::streams;
use crate::framework::device::Device;
use crate::framework::loaded::{self, Loaded};
use crate::framework::spec::{Export, Framework};
use arraybridge_tensor::cuda::driver;
use arraybridge_tensor::dlpack::{LEGACY_STREAM, PER_THREAD_STREAM};

/// The `stream` of DLPack for an export that is ordered otherwise.
const UNORDERED: i32 = -1;

/// The object that an import gets for an array whose own `__dlpack__` takes no stream: TensorFlow
/// raises for any, and imports always pass one. The table's export waits for the data itself, so
/// every stream may read what it gives.
#[pyclass(frozen, module = "arraybridge", name = "_DeviceArray")]
pub struct Exporter {
    framework: &'static Framework,
    export: &'static Export,
    data: Py<PyAny>,
    place: DLDevice,
    /// The device on which the thread's default stream is made to wait for the data.
    ordered_on: Option<usize>,
}

impl Exporter {
    /// Wraps an array of a framework.
    ///
    /// # Errors
    ///
    /// Any exception that the framework raises when the array has no device.
    pub fn new(
        loaded: Loaded<'_>,
        export: &'static Export,
        data: &Bound<'_, PyAny>,
    ) -> PyResult<Exporter> {
        Ok(Exporter {
            framework: loaded.framework,
            export,
            data: data.clone().unbind(),
            place: loaded.dlpack_place(data)?,
            ordered_on: None,
        })
    }

    /// Wraps an array whose framework exports for no per-thread default stream. That stream is ordered here.
    ///
    /// # Errors
    ///
    /// The errors of [`Exporter::new`], and an error if the framework does not export.
    pub fn ordered(
        loaded: Loaded<'_>,
        data: &Bound<'_, PyAny>,
        device: Device,
    ) -> PyResult<Exporter> {
        let (Some(export), Device::Accelerator(index)) = (&loaded.framework.export, device) else {
            return Err(PyBufferError::new_err("this array is not exported from a device"));
        };
        Ok(Exporter { ordered_on: Some(index), ..Exporter::new(loaded, export, data)? })
    }

    fn refuse(&self, what: &str) -> PyErr {
        PyBufferError::new_err(format!("this {} array {what}", self.framework.title))
    }
}

#[pymethods]
impl Exporter {
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<Bound<'py, PyAny>>,
        dl_device: Option<(u32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if dl_device.is_some_and(|device| device != self.__dlpack_device__()) {
            return Err(self.refuse("can only be exported to the device where it is"));
        }
        if copy == Some(true) {
            return Err(self.refuse("is exported to be shared, not copied"));
        }
        let [mut stream, version] =
            [stream, max_version].map(|given| given.unwrap_or_else(|| py.None().into_bound(py)));
        let loaded = loaded::load(py, self.framework)?;
        if let Some(index) = self.ordered_on {
            let current = streams::current(loaded, index)?;
            let handle = current.as_ref().map_or(LEGACY_STREAM, |current| current.handle);
            // SAFETY: the framework's stream is of this device, and its object is held here. The other one is that of
            // the thread, which exists on every device.
            unsafe { driver::order(index, handle, PER_THREAD_STREAM) }?;
            stream = PyInt::new(py, UNORDERED).into_any();
        }
        loaded.export(self.export, [self.data.bind(py), &stream, &version])
    }

    fn __dlpack_device__(&self) -> (u32, i32) {
        (self.place.device_type.0, self.place.device_id)
    }
}
