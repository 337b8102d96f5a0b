//! The extension module `arraybridge._core`: names, signatures and docstrings. What they do is in
//! `arraybridge-runtime`.

#![forbid(unsafe_code)]

mod policy;
mod slices;

use arraybridge_runtime::__private::package::{
    self, DType, Declared, Decorator, Endpoints, Framework, Memory, MemoryType, NoCopy, Placement,
    Record, Request, Result, ThreadStream, Trace, names,
};
use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

/// The element type of an optional argument.
fn element_type(dtype: Option<&Bound<'_, PyAny>>) -> Result<Option<DType>> {
    dtype.map(names::dtype).transpose()
}

fn request(
    target: &'static Framework,
    device: Option<&Bound<'_, PyAny>>,
    copy: Option<bool>,
    dtype: Option<&Bound<'_, PyAny>>,
) -> Result<Request> {
    let ends = Endpoints { source: target, target };
    let placement = match device {
        None => Placement::Auto,
        Some(device) => Placement::from_device(device, ends)?,
    };
    Ok(Request { placement, copy, dtype: element_type(dtype)?, ..Request::default() })
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
/// so writing into memory that was shared with it can change results already asked for. A torch tensor
/// on the host whose memory is shared cannot be resized any more, as after ``t.numpy()``; one on a GPU
/// can, and leaves the other array without memory.
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
    let target = names::framework(target)?;
    package::convert_to(data, target, &request(target, device, copy, dtype)?)
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
    let (source, target) = (names::framework(source_type)?, names::framework(target_type)?);
    let placement = match gpu_id {
        None => Placement::Auto,
        Some(gpu_id) => Placement::from_gpu_id(gpu_id, Endpoints { source, target })?,
    };
    package::convert_labelled(
        data,
        source,
        target,
        &Request { placement, copy, ..Request::default() },
    )
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
    Ok(names::name_of(data.py(), package::class_of(data)?.framework).clone())
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
    let target = names::framework(target)?;
    package::explain(data, target, &request(target, device, copy, dtype)?)
}

/// The registered converters as pairs of names, source first.
///
/// Examples
/// --------
/// >>> import arraybridge
/// >>> ("numpy", "torch") in arraybridge.registered_pairs()
/// True
#[pyfunction]
fn registered_pairs() -> Vec<(&'static str, &'static str)> {
    package::start::converters().map(|c| (c.source().name, c.target().name)).collect()
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

/// Declare the framework of a function's arguments and that of its results.
///
/// Parameters
/// ----------
/// input_type, output_type : str or MemoryType
///     The framework that array arguments are converted to, and that of the results. An output type
///     "input" is the framework of the first array argument.
/// contract : callable, optional
///     A function of the result. False is a ValueError.
/// **options
///     Those of the decorators, such as `arraybridge.torch`.
///
/// Returns
/// -------
/// Decorator
///     It takes the function.
///
/// Raises
/// ------
/// TypeError, ValueError
///     For unknown frameworks and options.
///
/// Examples
/// --------
/// >>> import numpy, arraybridge
/// >>> @arraybridge.memory_types("numpy", "input")
/// ... def doubled(image):
/// ...     return image * 2
/// >>> doubled(numpy.ones(2))
/// array([2., 2.])
#[pyfunction]
#[pyo3(signature = (input_type, output_type, contract=None, **options))]
fn memory_types<'py>(
    input_type: &Bound<'py, PyAny>,
    output_type: &Bound<'py, PyAny>,
    contract: Option<&Bound<'py, PyAny>>,
    options: Option<&Bound<'py, PyDict>>,
) -> Result<Bound<'py, Decorator>> {
    package::memory_types(input_type, output_type, contract, options)
}

/// A declared function of its parts: what pickle calls.
#[pyfunction]
fn _declare<'py>(
    function: &Bound<'py, PyAny>,
    execution: &Bound<'py, PyAny>,
    options: &Bound<'py, PyDict>,
) -> Result<Bound<'py, Declared>> {
    package::declare(function, execution, options)
}

/// Whether an exception says that the memory of a framework, or of a certain one, ran out.
#[pyfunction]
#[pyo3(signature = (error, memory_type=None))]
fn is_oom_error(
    error: Bound<'_, PyBaseException>,
    memory_type: Option<&Bound<'_, PyAny>>,
) -> Result<bool> {
    let wanted = memory_type.map(names::framework).transpose()?;
    let found =
        package::memory::framework_of(error.py(), &PyErr::from_value(error.clone().into_any()));
    Ok(found.is_some_and(|found| wanted.is_none_or(|w| w.memory_type == found.memory_type)))
}

/// Call `func`, and again with all caches given back when the framework's memory runs out.
#[pyfunction]
#[pyo3(signature = (func, memory_type, max_retries=2))]
fn execute_with_oom_recovery<'py>(
    func: &Bound<'py, PyAny>,
    memory_type: &Bound<'py, PyAny>,
    max_retries: usize,
) -> Result<Bound<'py, PyAny>> {
    Ok(package::memory::retry(func, names::framework(memory_type)?, max_retries)?)
}

/// The decorators of all tables by name.
#[pyfunction]
fn decorators(py: Python<'_>) -> Result<Bound<'_, PyDict>> {
    let all = PyDict::new(py);
    for framework in MemoryType::ALL.map(MemoryType::framework) {
        all.set_item(framework.name, Decorator::new(py, framework, None)?)?;
    }
    Ok(all)
}

// Free-threaded builds are not tested yet, so the module asks for the lock there.
#[pymodule(gil_used = true)]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    package::start::at_start(module.py());
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<Record>()?;
    module.add_class::<Trace>()?;
    module.add_class::<NoCopy>()?;
    module.add_class::<ThreadStream>()?;
    module.add_class::<Declared>()?;
    module.add_class::<Decorator>()?;
    package::add_tensor_class(module)?;
    module.add_function(wrap_pyfunction!(convert_, module)?)?;
    module.add_function(wrap_pyfunction!(convert_memory, module)?)?;
    module.add_function(wrap_pyfunction!(detect_memory_type, module)?)?;
    module.add_function(wrap_pyfunction!(explain, module)?)?;
    module.add_function(wrap_pyfunction!(registered_pairs, module)?)?;
    module.add_function(wrap_pyfunction!(frameworks, module)?)?;
    module.add_function(wrap_pyfunction!(decorators, module)?)?;
    module.add_function(wrap_pyfunction!(memory_types, module)?)?;
    module.add_function(wrap_pyfunction!(_declare, module)?)?;
    module.add_function(wrap_pyfunction!(is_oom_error, module)?)?;
    module.add_function(wrap_pyfunction!(execute_with_oom_recovery, module)?)?;
    package::publish(module)?;
    package::start::install(module)?;
    policy::register(module)?;
    slices::register(module)
}
