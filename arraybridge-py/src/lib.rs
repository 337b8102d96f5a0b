//! The extension module `arraybridge._core`: names, signatures and docstrings. What they do is in
//! `arraybridge-runtime`.

#![forbid(unsafe_code)]

use arraybridge_runtime::convert::{self, Request};
use arraybridge_runtime::device::Placement;
use arraybridge_runtime::error::{Ends, Error, Result};
use arraybridge_runtime::generated::MemoryType;
use arraybridge_runtime::record::{NoCopy, Record, Trace};
use arraybridge_runtime::spec::{DType, Framework, Memory};
use arraybridge_runtime::{isolate, registry, tensor};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

/// The framework of a name that a user wrote.
fn framework(name: &Bound<'_, PyAny>) -> Result<&'static Framework> {
    let known = || MemoryType::ALL.map(MemoryType::name).join(", ");
    let Ok(text) = name.cast::<PyString>() else {
        return Err(Error::Type(format!(
            "a framework is named by a str or a MemoryType ({}), not by {}",
            known(),
            name.get_type().name()?
        )));
    };
    let text = text.to_str()?;
    MemoryType::from_name(text)
        .map(MemoryType::framework)
        .ok_or_else(|| Error::Value(format!("unknown framework {text:?}; known are {}", known())))
}

fn element_type(name: Option<&Bound<'_, PyAny>>) -> Result<Option<DType>> {
    let Some(object) = name else { return Ok(None) };
    // A name, or any framework's dtype object: `numpy.uint16`, `torch.uint16`, `tf.uint16`.
    let name = match object.cast::<PyString>() {
        Ok(name) => name.to_str()?.to_owned(),
        Err(_) => ["name", "__name__"]
            .iter()
            .find_map(|attribute| object.getattr(*attribute).ok()?.extract::<String>().ok())
            .map_or_else(|| object.str().map(|s| s.to_string()), Ok)?,
    };
    let short = name.rsplit('.').next().unwrap_or_default();
    DType::from_name(short).map(Some).ok_or_else(|| {
        let known: Vec<_> = DType::ALL.iter().map(|dtype| dtype.name()).collect();
        Error::Value(format!("unknown dtype {name:?}; known are {}", known.join(", ")))
    })
}

fn request(
    target: &'static Framework,
    device: Option<&Bound<'_, PyAny>>,
    copy: Option<bool>,
    dtype: Option<&Bound<'_, PyAny>>,
) -> Result<Request> {
    let ends = Ends { source: target, target };
    let placement = match device {
        None => Placement::Auto,
        Some(device) => Placement::from_device(device, ends)?,
    };
    Ok(Request { placement, copy, dtype: element_type(dtype)? })
}

/// Convert an array of any framework to an array of `target`.
///
/// Parameters
/// ----------
/// data : array
///     An array of any shape and of any known framework.
/// target : str or MemoryType
///     The framework to convert to: "numpy", "cupy", "torch", "tensorflow", "jax", "pyclesperanto".
/// device : str or int, optional
///     "host", "cpu", "accelerator:1", "cuda:1", or the index of an accelerator. Without it, the
///     array stays on the kind of device where it is if the target has that, else it goes to the
///     target's current device.
/// copy : bool, optional
///     None shares memory where the target can wrap it, and copies where it cannot. True makes fresh
///     memory, always. False shares, or raises CopyRequiredError with the reason.
/// dtype : str or dtype, optional
///     The element type to cast to: floats are rounded half to even, values outside of an integer's
///     range are clamped to its ends, NaN becomes 0. Without it no value and no dtype changes.
///
/// Returns
/// -------
/// array
///     An array of the target, of the same shape. An array that fits already is returned itself.
///
/// Raises
/// ------
/// MemoryConversionError
///     Or one of its children: DeviceUnavailableError, UnsupportedDtypeError, UnsupportedArrayError,
///     CopyRequiredError, FrameworkNotInstalledError.
/// ValueError
///     For an unknown name of a framework, a device or a dtype.
///
/// Notes
/// -----
/// Shared memory is shared: writing into one array changes the other. JAX runs later than it returns,
/// so writing into memory that was shared with it can change results already asked for. Resizing a
/// torch tensor's storage while another array shares it leaves that array dangling; torch cannot
/// prevent it.
///
/// Examples
/// --------
/// >>> import numpy, arraybridge
/// >>> image = numpy.array([[100.0, 200.5], [-3.0, 70000.0]])
/// >>> arraybridge.convert(image, "numpy") is image
/// True
/// >>> arraybridge.convert(image, "numpy", dtype="uint16")
/// array([[  100,   200],
///        [    0, 65535]], dtype=uint16)
#[pyfunction(name = "convert")]
#[pyo3(signature = (data, target, *, device=None, copy=None, dtype=None))]
fn convert_<'py>(
    data: &Bound<'py, PyAny>,
    target: &Bound<'py, PyAny>,
    device: Option<&Bound<'py, PyAny>>,
    copy: Option<bool>,
    dtype: Option<&Bound<'py, PyAny>>,
) -> Result<Bound<'py, PyAny>> {
    let target = framework(target)?;
    convert::convert_to(data, target, &request(target, device, copy, dtype)?)
}

/// Convert an array of `source_type` to `target_type`.
///
/// Parameters
/// ----------
/// data : array
///     An array of `source_type`, of any shape.
/// source_type, target_type : str or MemoryType
///     Names of frameworks. A source that does not match the array is an error.
/// gpu_id : int, optional
///     The index of the target's accelerator. A framework with host memory only ignores it.
/// copy : bool, optional
///     As in `convert`.
///
/// Raises
/// ------
/// MemoryConversionError
///     As in `convert`, and where `source_type` is not the array's framework.
/// TypeError
///     When `gpu_id` is not an int.
///
/// Examples
/// --------
/// >>> import numpy, arraybridge
/// >>> arraybridge.convert_memory(numpy.zeros(3), "numpy", "numpy")
/// array([0., 0., 0.])
#[pyfunction]
#[pyo3(signature = (data, source_type, target_type, gpu_id=None, *, copy=None))]
fn convert_memory<'py>(
    data: &Bound<'py, PyAny>,
    source_type: &Bound<'py, PyAny>,
    target_type: &Bound<'py, PyAny>,
    gpu_id: Option<&Bound<'py, PyAny>>,
    copy: Option<bool>,
) -> Result<Bound<'py, PyAny>> {
    let (source, target) = (framework(source_type)?, framework(target_type)?);
    let placement = match gpu_id {
        None => Placement::Auto,
        Some(gpu_id) => Placement::from_gpu_id(gpu_id, Ends { source, target })?,
    };
    convert::convert_labelled(data, source, target, &Request { placement, copy, dtype: None })
}

/// The name of the framework that an array belongs to. Nothing is imported to find out.
///
/// The object's class and its bases are looked up by name, so subclasses and wrappers such as
/// variables belong to the framework that they come from.
///
/// Raises
/// ------
/// UnsupportedArrayError
///     A ValueError, when the object is an array of none.
///
/// Examples
/// --------
/// >>> import numpy, arraybridge
/// >>> arraybridge.detect_memory_type(numpy.zeros(3))
/// 'numpy'
#[pyfunction]
fn detect_memory_type<'py>(data: &Bound<'py, PyAny>) -> Result<Bound<'py, PyString>> {
    Ok(PyString::intern(data.py(), convert::class_of(data)?.framework.name))
}

/// What `convert` would do with the same arguments, and why, without doing it.
///
/// Returns
/// -------
/// Record
///     `route` is "keep", "share", "move" or "copy"; `why` is the reason for a copy.
///
/// Raises
/// ------
/// MemoryConversionError
///     What `convert` would raise before it touches the data.
///
/// Examples
/// --------
/// >>> import numpy, arraybridge
/// >>> print(arraybridge.explain(numpy.zeros((2, 3)), "numpy", copy=True))
/// numpy -> numpy: copy (copy), float64[2, 3], 48 bytes, on host; copied because copy=True asks for fresh memory
#[pyfunction]
#[pyo3(signature = (data, target, *, device=None, copy=None, dtype=None))]
fn explain(
    data: &Bound<'_, PyAny>,
    target: &Bound<'_, PyAny>,
    device: Option<&Bound<'_, PyAny>>,
    copy: Option<bool>,
    dtype: Option<&Bound<'_, PyAny>>,
) -> Result<Record> {
    let target = framework(target)?;
    convert::explain(data, target, &request(target, device, copy, dtype)?)
}

/// The registered converters as pairs of names, source first.
///
/// Examples
/// --------
/// >>> import arraybridge
/// >>> ("numpy", "torch") in arraybridge.converters()
/// True
#[pyfunction]
fn converters() -> Vec<(&'static str, &'static str)> {
    registry::converters().map(|c| (c.source().name, c.target().name)).collect()
}

/// The frameworks that this module was built with: name, title, module, install, memory.
///
/// Examples
/// --------
/// >>> import arraybridge
/// >>> arraybridge.frameworks()[0]["title"]
/// 'NumPy'
#[pyfunction]
fn frameworks(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for framework in MemoryType::ALL.map(MemoryType::framework) {
        let entry = PyDict::new(py);
        entry.set_item("name", framework.name)?;
        entry.set_item("title", framework.title)?;
        entry.set_item("module", framework.module)?;
        entry.set_item("install", framework.install)?;
        let memory = match framework.memory {
            Memory::Host => "host",
            Memory::Accelerator => "accelerator",
            Memory::Either => "either",
        };
        entry.set_item("memory", memory)?;
        list.append(entry)?;
    }
    Ok(list)
}

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    isolate::at_start(module.py());
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<Record>()?;
    module.add_class::<Trace>()?;
    module.add_class::<NoCopy>()?;
    tensor::add_class(module)?;
    module.add_function(wrap_pyfunction!(convert_, module)?)?;
    module.add_function(wrap_pyfunction!(convert_memory, module)?)?;
    module.add_function(wrap_pyfunction!(detect_memory_type, module)?)?;
    module.add_function(wrap_pyfunction!(explain, module)?)?;
    module.add_function(wrap_pyfunction!(converters, module)?)?;
    module.add_function(wrap_pyfunction!(frameworks, module)?)?;
    Ok(())
}
