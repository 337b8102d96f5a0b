//! A host array as a Python object that other libraries import.

use dlpark::ffi::DLDeviceType;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;

use super::{capsule, managed};
use crate::interpreter::held::Held;
use crate::memory::view::{Owner, Source, View};

/// What `from_dlpack` functions are handed: host memory with the whole protocol.
///
/// Each export keeps the producer alive, and the producer keeps the memory.
#[pyclass(frozen, module = "arraybridge", name = "_HostArray")]
pub struct Producer {
    view: ViewOfHost,
    // Held for its drop.
    _owner: std::sync::Mutex<Owner>,
}

/// A host view. The pointer is only read through an export, which the producer outlives.
struct ViewOfHost(View);

// SAFETY: the view is immutable, and whoever reads the memory behind it follows DLPack's rules.
unsafe impl Send for ViewOfHost {}
// SAFETY: as above.
unsafe impl Sync for ViewOfHost {}

impl Producer {
    /// Wraps a source.
    pub fn new(source: Source) -> Producer {
        Producer { view: ViewOfHost(source.view), _owner: std::sync::Mutex::new(source.owner) }
    }
}

#[pymethods]
impl Producer {
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        slf: &Bound<'py, Self>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(u32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let view = &slf.get().view.0;
        if stream.is_some() {
            return Err(PyValueError::new_err("stream must be None for host memory"));
        }
        let own = (view.device.device_type.0, view.device.device_id);
        if dl_device.is_some_and(|device| device != own && device != (DLDeviceType::CPU.0, 0)) {
            return Err(PyBufferError::new_err("host memory can only be exported to the host"));
        }
        if copy == Some(true) {
            return Err(PyBufferError::new_err("this export is made to be shared, not copied"));
        }
        let owner = Owner::Object(Held::new(slf.as_any()));
        let source = Source { view: view.clone(), owner };
        if max_version.is_some_and(|(major, _)| major >= 1) {
            capsule::give_versioned(py, managed::versioned(source))
        } else {
            capsule::give_legacy(py, managed::legacy(source))
        }
    }

    fn __dlpack_device__(&self) -> (u32, i32) {
        (self.view.0.device.device_type.0, self.view.0.device.device_id)
    }
}
