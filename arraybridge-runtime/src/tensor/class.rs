//! The Python class `arraybridge.Tensor`.

use crate::interpreter::held::Held;
use crate::interpreter::once::Once;
use crate::interpreter::package;
use crate::interpreter::panic::memory_errors;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dlpark::DlpackFlags;
use dlpark::ffi::{DLDevice, DLDeviceType};
use pyo3::exceptions::{PyAttributeError, PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};

use super::Tensor;
use super::opened::from_opened;
use crate::convert::{self, Request};
use crate::dlpack::capsule;
use crate::framework::generated::MemoryType;
use crate::interpreter::error::{Failure, Result};
use crate::memory::cast;
use arraybridge_host::dtype::{DType, Kind};
use arraybridge_host::layout::Strides;
use arraybridge_tensor::cuda::driver::borrowed_stream;
use arraybridge_tensor::dlpack::{LEGACY_STREAM, managed};
use arraybridge_tensor::memory::source::{SharedSource, Source};
use arraybridge_tensor::memory::view::{Dims, View};
use arraybridge_tensor::tensor::streams::{self, WrittenOn};
use arraybridge_tensor::tensor::{describe, device_name};

/// An n-dimensional array that belongs to no framework, as Rust functions return it.
///
/// `Tensor(data)` is short for `Tensor.from_dlpack(data)`. `arraybridge.convert`, `numpy.asarray` and any
/// library that supports DLPack share its memory without a copy.
///
/// Examples
/// --------
/// >>> import numpy, arraybridge
/// >>> tensor = arraybridge.Tensor(numpy.arange(6, dtype="uint16").reshape(2, 3))
/// >>> tensor
/// <arraybridge.Tensor uint16[2, 3] on host>
/// >>> numpy.from_dlpack(tensor).sum()
/// np.uint64(15)
#[pyclass(frozen, module = "arraybridge", name = "Tensor")]
pub struct PyTensor {
    pub(super) memory: Held<SharedSource>,
    /// The shape and the strides, in elements, that a `DLTensor` points to.
    pub(super) extents: [Dims<i64>; 2],
    stream: Mutex<WrittenOn>,
}

impl From<Tensor> for PyTensor {
    fn from(tensor: Tensor) -> PyTensor {
        let (source, stream) = tensor.into_parts();
        let view = source.view();
        let size = view.dtype().size() as isize;
        let shape = view.shape().iter().map(|n| *n as i64).collect();
        let strides = view.strides().iter().map(|stride| (*stride / size) as i64).collect();
        PyTensor {
            extents: [shape, strides],
            stream: Mutex::new(stream),
            memory: SharedSource::from(source).into(),
        }
    }
}

/// The argument that a tensor is made of when it is unpickled.
type Elements<'py> = (Bound<'py, PyAny>,);

const HOST: (u32, i32) = (DLDeviceType::CPU.0, 0);

impl PyTensor {
    pub(super) fn view(&self) -> &View {
        self.memory.view()
    }

    pub(super) fn is_host(&self) -> bool {
        self.view().is_on_host()
    }

    fn stream(&self) -> MutexGuard<'_, WrittenOn> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy in new host memory.
    fn copied(&self, py: Python<'_>) -> PyResult<Source> {
        if self.is_host() {
            return Ok(cast::copied(py, &self.memory.source())?);
        }
        if self.view().layout() != Strides::Contiguous {
            let text = "the device array is strided; make it contiguous with a framework of that device \
                        first";
            return Err(PyBufferError::new_err(text));
        }
        // The copy releases the interpreter, and the lock must not be held then.
        let stream = self.stream().clone();
        Ok(streams::to_host(&self.memory.source(), &stream)?)
    }

    /// Makes the legacy default stream wait for the stream that wrote the memory. From then on every user
    /// of the memory needs to wait for the legacy default stream only.
    pub(super) fn settle(&self) -> PyResult<()> {
        if !self.is_host() {
            let mut stream = self.stream();
            streams::order(self.view().device().device_id, &stream, LEGACY_STREAM)?;
            *stream = None;
        }
        Ok(())
    }

    /// Returns whether an export has to copy the memory.
    ///
    /// # Errors
    ///
    /// The reason why the memory cannot be exported like this.
    fn needs_copy(
        &self,
        has_stream: bool,
        device: Option<(u32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<bool> {
        let own = self.__dlpack_device__();
        let wanted = device.unwrap_or(own);
        let moves = wanted != own && !(wanted == HOST && self.is_host());
        if moves && wanted != HOST {
            let text = format!("the tensor is on DLPack device {own:?}, not on {wanted:?}");
            return Err(PyBufferError::new_err(text));
        }
        if has_stream && (self.is_host() || wanted == HOST) {
            return Err(PyValueError::new_err("stream must be None for host memory"));
        }
        let copies = copy == Some(true) || moves;
        if copies && copy == Some(false) {
            return Err(PyBufferError::new_err("copy=False, but the memory is on another device"));
        }
        if copies && wanted != HOST {
            let text =
                "the tensor cannot be copied on its device; pass dl_device=(1, 0) for a host copy";
            return Err(PyBufferError::new_err(text));
        }
        Ok(copies)
    }

    /// Makes a consumer's stream wait for the stream that wrote the memory. Returns whether it is the stream
    /// on which the memory is freed.
    fn order(&self, stream: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
        let stream: i64 = stream.map_or(Ok(1), |stream| stream.extract())?;
        match stream {
            // Such a consumer orders its own work, also with the release of the memory.
            -1 => Ok(true),
            0 => Err(PyValueError::new_err(
                "stream 0 is ambiguous; use 1 for the legacy default stream or 2 for the per-thread one",
            )),
            stream if stream < 0 => {
                Err(PyValueError::new_err(format!("{stream} is not a CUDA stream")))
            }
            consumer => {
                let (stream, consumer) = (self.stream(), consumer as usize);
                let device = self.view().device().device_id;
                streams::order(device, &stream, consumer)?;
                Ok(stream.is_some() && streams::handle(&stream) == consumer)
            }
        }
    }
}

#[pymethods]
impl PyTensor {
    #[new]
    #[memory_errors]
    fn new(data: &Bound<'_, PyAny>) -> Result<PyTensor> {
        Ok(Tensor::from_py(data)?.into())
    }

    /// Make a tensor of any framework's array, or of any object with `__dlpack__`.
    ///
    /// Parameters
    /// ----------
    /// data : array
    ///     Host and CUDA memory is shared. Memory of other devices is copied to the host.
    /// copy : bool, optional
    ///     True copies the memory, False raises CopyRequiredError if it cannot be shared.
    ///
    /// Raises
    /// ------
    /// MemoryConversionError
    ///     If the object cannot be read, or needs a copy that `copy=False` forbids.
    ///
    /// Examples
    /// --------
    /// >>> import numpy, arraybridge
    /// >>> arraybridge.Tensor.from_dlpack(numpy.zeros(3), copy=True).shape
    /// (3,)
    #[staticmethod]
    #[pyo3(signature = (data, /, *, copy=None))]
    #[memory_errors]
    fn from_dlpack(data: &Bound<'_, PyAny>, copy: Option<bool>) -> Result<PyTensor> {
        let py = data.py();
        let opened = match copy {
            Some(true) => convert::open_any(data, LEGACY_STREAM)?,
            _ => convert::open_to_hold(data, LEGACY_STREAM)?,
        };
        convert::warn_if_detached(data, MemoryType::Numpy.framework())?;
        let (before, host) = (opened.source.view().data(), opened.source.view().is_on_host());
        let private = opened.private;
        let opened = match copy {
            Some(true) if host && !private => convert::fresh(py, opened, None)?,
            Some(true) if !host => {
                let text =
                    "copy the array with its own framework; a Tensor copies host memory only";
                return Err(PyBufferError::new_err(text).into());
            }
            _ => opened,
        };
        let tensor = from_opened(py, opened)?;
        if copy == Some(false) && (private || tensor.description().data() != before) {
            let numpy = MemoryType::Numpy.framework();
            let reason = "copy=False, but DLPack cannot describe the memory in place".into();
            return Err(numpy.error(Failure::Copy, "plan", reason));
        }
        Ok(tensor.into())
    }

    /// Make a tensor of a capsule from another extension module, and of the stream on which its memory was
    /// written.
    #[staticmethod]
    #[pyo3(signature = (capsule, stream=None))]
    #[memory_errors]
    fn _adopt(capsule: &Bound<'_, PyAny>, stream: Option<usize>) -> Result<PyTensor> {
        let source = capsule::take(capsule)?;
        let index = source.view().device().device_id as usize;
        // SAFETY: `into_object` passes the stream of the tensor. The memory's owner keeps it alive, or it is
        // never destroyed.
        let stream = stream.map(|handle| unsafe { borrowed_stream(index, handle) }).transpose()?;
        Ok(Tensor::written_on(source, stream).into())
    }

    /// Export the memory by DLPack, as its specification for Python says.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    #[memory_errors]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(u32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let copies = self.needs_copy(stream.is_some(), dl_device, copy)?;
        let mut source = if copies { self.copied(py)? } else { self.memory.source() };
        if !self.is_host() && !copies && !self.order(stream.as_ref())? {
            source = streams::AfterDevice::of(source);
        }
        if max_version.is_some_and(|(major, _)| major >= 1) {
            let mut tensor = source.hand_over(managed::versioned);
            if copies {
                // SAFETY: the memory was copied for this export, so there is no other reference to it.
                unsafe { *tensor.flags_mut() |= DlpackFlags::IS_COPIED };
            }
            return tensor.into_pyobject(py);
        }
        if source.view().is_read_only() {
            let text = "the tensor is read-only, which needs DLPack 1.0 (max_version) or copy=True";
            return Err(PyBufferError::new_err(text));
        }
        source.hand_over(managed::legacy).into_pyobject(py)
    }

    /// DLPack's device type and device index.
    fn __dlpack_device__(&self) -> (u32, i32) {
        let DLDevice { device_type, device_id } = self.view().device();
        (device_type.0, device_id)
    }

    /// The elements as a NumPy array, also those whose dtype the array interface has no code for.
    #[pyo3(signature = (dtype=None, copy=None))]
    #[memory_errors]
    fn __array__<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        if !slf.get().is_host() {
            let text = "the tensor is not on the host; use arraybridge.convert(tensor, \"numpy\")";
            return Err(PyTypeError::new_err(text));
        }
        let request = Request { copy, ..Request::default() };
        let array = convert::convert_to(slf.as_any(), MemoryType::Numpy.framework(), &request)?;
        let Some(dtype) = dtype else { return Ok(array) };
        let keywords = PyDict::new(py);
        keywords.set_item("copy", false)?;
        array.call_method("astype", (dtype,), Some(&keywords))
    }

    /// An array for functions of `jax.numpy`, which would look up the name of the dtype as a dtype.
    #[memory_errors]
    fn __jax_array__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        // The method is JAX's, but a build may be without its table.
        let Some(jax) = MemoryType::from_name("jax") else {
            return Err(PyTypeError::new_err("this build of arraybridge has no table for JAX"));
        };
        Ok(convert::convert_to(slf.as_any(), jax.framework(), &Request::default())?)
    }

    #[getter]
    #[memory_errors]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        if !self.is_host() {
            return Err(PyAttributeError::new_err("the tensor is not on the host"));
        }
        self.interface(py)
    }

    #[getter]
    #[memory_errors]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        if self.is_host() {
            return Err(PyAttributeError::new_err("the tensor is not on a CUDA device"));
        }
        let interface = self.interface(py)?;
        interface.set_item("stream", streams::handle(&self.stream()))?;
        Ok(interface)
    }

    /// Length of each axis.
    #[getter]
    #[memory_errors]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.view().shape().iter())
    }

    /// Bytes from one element to the next along each axis, as in NumPy.
    #[getter]
    #[memory_errors]
    fn strides<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.view().strides().iter())
    }

    /// Name of the element type.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.view().dtype().name()
    }

    /// Number of axes.
    #[getter]
    fn ndim(&self) -> usize {
        self.view().ndim()
    }

    /// Size of the elements in bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.view().nbytes()
    }

    /// ``"host"`` or ``"cuda:0"``.
    #[getter]
    fn device(&self) -> String {
        device_name(self.view().device())
    }

    /// Pickles and copies the elements as those of a NumPy array, whose pickles can leave large ones out of band.
    #[memory_errors]
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyType>, Elements<'py>)> {
        if !slf.get().is_host() {
            let device = slf.get().device();
            let text = format!(
                "a tensor on {device} cannot be pickled or copied; take arraybridge.convert(tensor, \"numpy\")"
            );
            return Err(PyTypeError::new_err(text));
        }
        Ok((slf.get_type(), (PyTensor::__array__(slf, None, None)?,)))
    }

    fn __repr__(&self) -> String {
        format!("<arraybridge.{}>", describe(self.view()))
    }
}

impl PyTensor {
    /// The part that both array interfaces have in common.
    fn interface<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let view = self.view();
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("shape", self.shape(py)?)?;
        interface.set_item("typestr", typestr(view.dtype())?)?;
        interface.set_item("data", (view.data() as usize, view.is_read_only()))?;
        interface.set_item("strides", self.strides(py)?)?;
        Ok(interface)
    }
}

/// NumPy's type code of an element type.
fn typestr(dtype: DType) -> PyResult<String> {
    if !dtype.is_numpy() {
        let text = format!("the array interface has no code for {dtype}; use DLPack");
        return Err(PyAttributeError::new_err(text));
    }
    let kind = match dtype.kind() {
        Kind::Bool => 'b',
        Kind::Unsigned => 'u',
        Kind::Signed => 'i',
        Kind::Float => 'f',
        Kind::Complex => 'c',
    };
    let order = if dtype.size() == 1 {
        '|'
    } else if cfg!(target_endian = "little") {
        '<'
    } else {
        '>'
    };
    Ok(format!("{order}{kind}{}", dtype.size()))
}

/// Adds the class to the module of the `arraybridge` package.
///
/// # Errors
///
/// Any exception that Python raises.
pub fn add_class(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyTensor>()?;
    super::exchange::install(module.py())
}

/// The class of the `arraybridge` package, unless that is this module's own class.
fn package_class(py: Python<'_>) -> Option<&Bound<'_, PyType>> {
    static CLASS: PyOnceLock<Option<Py<PyType>>> = PyOnceLock::new();
    let find = || {
        let module = package::core(py).ok()?;
        let class = module.getattr("Tensor").ok()?.cast_into::<PyType>().ok()?;
        (!class.is(py.get_type::<PyTensor>())).then(|| class.unbind())
    };
    CLASS.once(py, find).as_ref().map(|class| class.bind(py))
}

/// A tensor as an object of the `arraybridge` package's class, whichever extension module makes it.
pub(super) fn into_object(py: Python<'_>, tensor: Tensor) -> PyResult<Bound<'_, PyAny>> {
    let Some(class) = package_class(py) else {
        return Ok(Bound::new(py, PyTensor::from(tensor))?.into_any());
    };
    let (source, stream) = tensor.into_parts();
    let handle = stream.is_some().then(|| streams::handle(&stream));
    let capsule = source.hand_over(managed::versioned).into_pyobject(py)?;
    class.call_method1(crate::intern!(py, "_adopt"), (capsule, handle))
}
