//! CUDA's driver, loaded when it is needed and absent without harm.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use cudarc::driver::sys;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyInt;

use crate::device::Device;

/// Whether libcuda can be loaded. cudarc panics on its first call where it cannot.
pub fn is_present() -> bool {
    static PRESENT: OnceLock<bool> = OnceLock::new();
    *PRESENT.get_or_init(|| {
        // SAFETY: it only tries to open the library.
        catch_unwind(|| unsafe { sys::is_culib_present() }).unwrap_or(false)
    })
}

/// The legacy default stream as DLPack numbers it.
pub fn legacy_stream(py: Python<'_>) -> Bound<'_, PyAny> {
    PyInt::new(py, 1).into_any()
}

/// Blocks the host until the legacy default stream of a device is done; the device's other streams
/// go on.
///
/// # Errors
///
/// `RuntimeError` when there is no CUDA, or CUDA reports a failure.
pub fn wait_for_legacy_stream(device: Device) -> PyResult<()> {
    let Device::Accelerator(index) = device else { return Ok(()) };
    checked(|| {
        let context = cudarc::driver::CudaContext::new(index)?;
        context.bind_to_thread()?;
        // SAFETY: the null stream always exists in a bound context.
        unsafe { cudarc::driver::result::stream::synchronize(std::ptr::null_mut()) }
    })
}

/// Calls the driver, where there is one.
///
/// # Errors
///
/// `RuntimeError` when there is no CUDA, or CUDA reports a failure.
pub fn checked<T>(call: impl FnOnce() -> Result<T, cudarc::driver::DriverError>) -> PyResult<T> {
    if !is_present() {
        return Err(PyRuntimeError::new_err("the CUDA driver library cannot be loaded"));
    }
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(PyRuntimeError::new_err(format!("CUDA error {}", error.0 as u32))),
        Err(_) => Err(PyRuntimeError::new_err("the CUDA driver could not be called")),
    }
}
