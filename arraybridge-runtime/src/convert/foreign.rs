//! Objects of no framework that hand out their memory by DLPack: a [`Tensor`](crate::tensor), the
//! tensors of a compiler, those of another library.

use crate::interpreter::once::Once;
use crate::interpreter::package;
use dlpark::DlpackFlags;
use dlpark::ffi::{DLDevice, DLDeviceType};
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{IntoPyDict, PyDict, PyType};

use super::errors;
use super::likeness::{self, Likeness, likeness};
use super::pair::class_of;
use super::pin::pin;
use super::slot::Opened;
use super::source;
use crate::dlpack::capsule;
use crate::dlpack::exchange::Exchange;
use crate::framework::detect;
use crate::framework::device::{self, Device};
use crate::framework::generated::MemoryType;
use crate::framework::registry;
use crate::framework::shortcuts::{self, ShortCut};
use crate::interpreter::error::{Error, Failure, Result, attempt};
use arraybridge_tensor::dlpack::LEGACY_STREAM;
use arraybridge_tensor::memory::source::Owner;

/// The place of an exporter's memory, and the memory itself if it is on the host.
pub(super) fn place_and_memory(data: &Bound<'_, PyAny>) -> Result<(DLDevice, Option<Opened>)> {
    let place = place_of(data)?;
    Ok(match device::of_memory(place) {
        Device::Host => (place, Some(in_place(data, place, None)?)),
        Device::Accelerator(_) => (place, None),
    })
}

/// Describes device memory. It is not read, so the export is not ordered with any stream.
pub(super) fn described_in_place(data: &Bound<'_, PyAny>, place: DLDevice) -> Result<Opened> {
    let stream = (place.device_type == DLDeviceType::CUDA).then_some(-1);
    match in_place(data, place, stream) {
        Err(Error::Conversion(_)) => in_place(data, place, None),
        answer => answer,
    }
}

pub(super) fn place_of(data: &Bound<'_, PyAny>) -> Result<DLDevice> {
    device::dlpack_device(data).map_err(|error| export_failed(data, error))
}

/// Opens the memory of a framework's array, or of any object that hands it out by DLPack, where it
/// is: on the host, or on a CUDA device, where what a stream does next comes after what was done to the
/// memory so far. Memory of other devices is downloaded.
pub fn open_any(data: &Bound<'_, PyAny>, stream: usize) -> Result<Opened> {
    open(data, Some(stream))
}

/// Does what [`open_any`] does, but downloads memory of every device.
pub fn open_on_host(data: &Bound<'_, PyAny>) -> Result<Opened> {
    open(data, None)
}

fn open(data: &Bound<'_, PyAny>, on_device: Option<usize>) -> Result<Opened> {
    if detect::class_of(data).is_some() {
        return source::opened_or_made(data, on_device);
    }
    if let Some(opened) = of_package(data)? {
        return Ok(opened);
    }
    if let Some(array) = likeness::inside(data)? {
        return open(&array, on_device);
    }
    if let Some(opened) = seen(data)? {
        return Ok(opened);
    }
    let place = place_of(data)?;
    match on_device {
        Some(stream) if device::is_cuda(place) => {
            source::expect_cuda(MemoryType::Numpy.framework())?;
            in_place(data, place, Some(stream as i64))
        }
        _ => open_at(data, place),
    }
}

/// The memory of an array whose table only the package knows, which converts it.
fn of_package(data: &Bound<'_, PyAny>) -> Result<Option<Opened>> {
    if registry::known_to_package(data).is_none() {
        return Ok(None);
    }
    let (py, numpy) = (data.py(), MemoryType::Numpy.name());
    let convert = package::core(py)?.getattr("convert")?;
    let strict = [("copy", false)].into_py_dict(py)?;
    Ok(Some(match attempt(py, convert.call((data, numpy), Some(&strict))) {
        Some(array) => open(&array, None)?,
        None => Opened { private: true, ..open(&convert.call1((data, numpy))?, None)? },
    }))
}

/// The memory of an object that NumPy makes an array of, and that does not export it by DLPack; `None` for an
/// exporter.
fn seen(data: &Bound<'_, PyAny>) -> Result<Option<Opened>> {
    match likeness(data) {
        Likeness::None | Likeness::Scalar | Likeness::Instance => class_of(data).map(|_| None),
        Likeness::Exporter { is_seen: false } => Ok(None),
        Likeness::Exporter { is_seen: true } if place_and_memory(data).is_ok() => Ok(None),
        _ => {
            let seen = likeness::see(data, MemoryType::Numpy.framework(), false)?;
            let opened = seen.opened()?;
            Ok(Some(Opened { private: opened.private || seen.made, ..opened }))
        }
    }
}

/// Does what [`open_any`] does, for a holder that may outlive the call.
pub fn open_to_hold(data: &Bound<'_, PyAny>, stream: usize) -> Result<Opened> {
    let opened = open_any(data, stream)?;
    pin(data, &opened)?;
    Ok(opened)
}

/// A copy of the memory on the host.
pub(super) fn download(data: &Bound<'_, PyAny>) -> Result<Opened> {
    open_at(data, place_of(data)?)
}

/// The memory on the host: shared where it is there, else a copy that the object makes.
pub(super) fn open_at(data: &Bound<'_, PyAny>, place: DLDevice) -> Result<Opened> {
    if device::is_host(place) {
        return in_place(data, place, None);
    }
    let keywords = PyDict::new(data.py());
    keywords.set_item("dl_device", (DLDeviceType::CPU.0, 0))?;
    // Where host and device have one memory, it would be shared.
    keywords.set_item("copy", true)?;
    Ok(Opened { private: true, ..opened(data, DLDevice::CPU, keywords)? })
}

/// The memory where it is; that of a CUDA device is ordered with a stream. The exchange table of a
/// [`Tensor`](crate::tensor) orders it with the legacy default stream.
pub(super) fn in_place(
    data: &Bound<'_, PyAny>,
    place: DLDevice,
    stream: Option<i64>,
) -> Result<Opened> {
    if stream.is_none_or(|stream| stream == LEGACY_STREAM as i64)
        && let Some(table) = exchange_of(data)
    {
        // SAFETY: the table is that of the object's class.
        let tensor = unsafe { table.export(data) };
        let tensor = tensor.map_err(|error| export_failed(data, error))?;
        let source = capsule::described(tensor)?;
        return Ok(Opened { source, private: false });
    }
    let keywords = PyDict::new(data.py());
    if let Some(stream) = stream {
        keywords.set_item("stream", stream)?;
    }
    opened(data, place, keywords)
}

fn opened(data: &Bound<'_, PyAny>, place: DLDevice, keywords: Bound<'_, PyDict>) -> Result<Opened> {
    let py = data.py();
    let export = crate::intern!(py, "__dlpack__");
    let failed = |error| export_failed(data, error);
    let older = keywords.copy()?;
    keywords.set_item("max_version", capsule::newest_version(py))?;
    let capsule = match data.call_method(export, (), Some(&keywords)) {
        // A producer of before DLPack 1.0 knows no versions.
        Err(error) if error.is_instance_of::<PyTypeError>(py) => {
            data.call_method(export, (), Some(&older))
        }
        answer => answer,
    };
    let mut source = capsule.and_then(|capsule| capsule::take(&capsule)).map_err(failed)?;
    let (there, wanted) = (device::of_memory(source.view().device()), device::of_memory(place));
    // Memory of a device must not be read as the host's, whatever the object says elsewhere.
    if there != wanted {
        let text = format!("its capsule is of memory on {there}, and not on {wanted}");
        return Err(failed(PyBufferError::new_err(text)));
    }
    // Only the address of CUDA memory means something to CUDA.
    let found = source.view().device();
    if device::is_cuda(found) != device::is_cuda(place) {
        let (kind, said) = (found.device_type.0, place.device_type.0);
        let text = format!("its capsule is of memory of DLPack type {kind}, and not {said}");
        return Err(failed(PyBufferError::new_err(text)));
    }
    // A legacy tensor cannot say whether it may be written to.
    source.restrict(matches!(source.owner(), Owner::Legacy(_)));
    let private = wanted == Device::Host && is_copied(source.owner());
    Ok(Opened { source, private })
}

/// Returns whether an export says that it is a copy, which belongs to its consumer alone.
fn is_copied(owner: &Owner) -> bool {
    matches!(owner, Owner::Versioned(tensor) if tensor.flags().contains(DlpackFlags::IS_COPIED))
}

#[cold]
fn export_failed(data: &Bound<'_, PyAny>, error: PyErr) -> Error {
    let (class, numpy) = (errors::class_name(data), MemoryType::Numpy.framework());
    errors::raised(data.py(), numpy, (Failure::Array, "export"), error, |line| {
        format!("{class} cannot hand out its memory ({line})")
    })
}

/// The exchange table of the `arraybridge` package's tensors, for one of them.
fn exchange_of(data: &Bound<'_, PyAny>) -> Option<Exchange> {
    static TABLE: PyOnceLock<Option<(Py<PyType>, Exchange)>> = PyOnceLock::new();
    let py = data.py();
    let find = || {
        if !shortcuts::is_on(ShortCut::Exchange) {
            return None;
        }
        let class = package::core(py).ok()?.getattr("Tensor").ok()?;
        let class = class.cast_into::<PyType>().ok()?;
        let table = Exchange::of_type(&class)?;
        Some((class.unbind(), table))
    };
    let (class, table) = TABLE.once(py, find).as_ref()?;
    data.get_type().is(class).then_some(*table)
}
