//! Stacks of slices, and cleanup, for Python.

use arraybridge_runtime::__private::package::memory::{self, Cleared};
use arraybridge_runtime::__private::package::{
    self, Endpoints, Error, Framework, MemoryType, Placement, Result, slices,
};
use pyo3::exceptions::PyRuntimeWarning;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use arraybridge_runtime::__private::package::names::framework;

fn placement(gpu_id: Option<&Bound<'_, PyAny>>, target: &'static Framework) -> Result<Placement> {
    match gpu_id {
        None => Ok(Placement::Auto),
        Some(gpu_id) => Placement::from_gpu_id(gpu_id, Endpoints { source: target, target }),
    }
}

/// Stack 2-D slices to a 3-D array of the framework `memory_type`, on accelerator `gpu_id`.
///
/// `slices` are n arrays of the shape (height, width), of one framework or of several; the result
/// has the shape (n, height, width). It has their dtype; slices of several dtypes get the one that
/// NumPy promotes them to. Without `gpu_id` the result is where `convert` would put the first slice.
///
/// Raises `ValueError` when there are no slices, when one is not 2-D, when their shapes differ, and
/// for an unknown name; otherwise what `convert` raises.
///
/// >>> import numpy, arraybridge
/// >>> arraybridge.stack_slices([numpy.zeros((2, 3)), numpy.ones((2, 3))], "numpy").shape
/// (2, 2, 3)
#[pyfunction]
#[pyo3(signature = (slices, memory_type, gpu_id=None))]
fn stack_slices<'py>(
    slices: &Bound<'py, PyAny>,
    memory_type: &Bound<'py, PyAny>,
    gpu_id: Option<&Bound<'py, PyAny>>,
) -> Result<Bound<'py, PyAny>> {
    let target = framework(memory_type)?;
    let slices = slices.try_iter()?.collect::<PyResult<Vec<_>>>()?;
    slices::stack(&slices, target, placement(gpu_id, target)?)
}

/// Take a 3-D array apart into a list of 2-D slices of the framework `memory_type`.
///
/// `array` has the shape (n, height, width) and is brought to `memory_type`, on accelerator
/// `gpu_id`, first; the result is a list of n arrays of the shape (height, width), views where the
/// framework has views. `validate_slices` checks that each slice is 2-D.
///
/// Raises `ValueError` when the array is not 3-D, when a slice is not 2-D and for an unknown name;
/// otherwise what `convert` raises.
///
/// >>> import numpy, arraybridge
/// >>> [s.shape for s in arraybridge.unstack_slices(numpy.zeros((2, 4, 3)), "numpy")]
/// [(4, 3), (4, 3)]
#[pyfunction]
#[pyo3(signature = (array, memory_type, gpu_id=None, validate_slices=true))]
fn unstack_slices<'py>(
    array: &Bound<'py, PyAny>,
    memory_type: &Bound<'py, PyAny>,
    gpu_id: Option<&Bound<'py, PyAny>>,
    validate_slices: bool,
) -> Result<Bound<'py, PyList>> {
    let py = array.py();
    let target = framework(memory_type)?;
    let parts = slices::unstack(array, target, placement(gpu_id, target)?)?;
    if validate_slices {
        for (index, part) in parts.iter().enumerate() {
            let axes = part.getattr(pyo3::intern!(py, "shape"))?.len()?;
            if axes != 2 {
                return Err(Error::Value(format!(
                    "the slice at index {index} has {axes} axes instead of 2"
                )));
            }
        }
    }
    Ok(PyList::new(py, parts)?)
}

/// Call a function with each 2-D slice of a 3-D array, and stack what it returns.
///
/// `func` is called as `func(slice, *args, **kwargs)` with each of the n slices of `image`, which
/// has the shape (n, height, width). The arrays that it returns, of any equal shape, are stacked in
/// the image's framework, on accelerator `gpu_id`, or where the image is. Where it returns tuples,
/// that is done with the first element, and every other element becomes a list of length n; results
/// that are no arrays become a list.
///
/// Raises `ValueError` when the image is not 3-D or has no slices, and when results differ in shape
/// or in number; what `func` raises; otherwise what `convert` raises.
///
/// >>> import numpy, arraybridge
/// >>> image = numpy.arange(12).reshape(2, 2, 3)
/// >>> arraybridge.process_slices(image, lambda s: (s.T, s.sum()), (), {})[0].shape
/// (2, 3, 2)
#[pyfunction]
#[pyo3(signature = (image, func, args=None, kwargs=None, gpu_id=None))]
fn process_slices<'py>(
    image: &Bound<'py, PyAny>,
    func: &Bound<'py, PyAny>,
    args: Option<&Bound<'py, PyAny>>,
    kwargs: Option<&Bound<'py, PyDict>>,
    gpu_id: Option<&Bound<'py, PyAny>>,
) -> Result<Bound<'py, PyAny>> {
    let py = image.py();
    let target = package::class_of(image)?.framework;
    let others = match args {
        Some(args) => args.try_iter()?.collect::<PyResult<Vec<_>>>()?,
        None => Vec::new(),
    };
    let place = placement(gpu_id, target)?;
    slices::process_into(py, image, Some((target, place)), &mut |_, slice| {
        let args = PyTuple::new(py, [slice].iter().chain(&others).collect::<Vec<_>>())?;
        Ok(func.call(args, kwargs)?)
    })
}

/// Put arrays together along an axis that they have, in the framework of the first of them.
///
/// Their other axes are equal. Raises `ValueError` when there are none, when they lack the axis and
/// when their shapes do not fit; otherwise what `convert` raises.
///
/// >>> import numpy
/// >>> from arraybridge.stack_utils import concatenate
/// >>> concatenate([numpy.zeros((2, 3)), numpy.ones((2, 1))], 1).shape
/// (2, 4)
#[pyfunction]
fn concatenate<'py>(parts: Vec<Bound<'py, PyAny>>, axis: usize) -> Result<Bound<'py, PyAny>> {
    slices::concatenate(&parts, axis)
}

/// The elements from `start` to before `stop` along an axis; a view where there are views.
///
/// Raises `ValueError` when the array has no such axis or no such elements.
///
/// >>> import numpy
/// >>> from arraybridge.stack_utils import part
/// >>> part(numpy.arange(5), 0, 1, 3)
/// array([1, 2])
#[pyfunction]
fn part<'py>(
    array: &Bound<'py, PyAny>,
    axis: usize,
    start: usize,
    stop: usize,
) -> Result<Bound<'py, PyAny>> {
    slices::part(array, axis, start, stop)
}

/// Have the frameworks that are loaded give back the device memory that they cache.
///
/// Garbage is collected first. `device_id` is the index of an accelerator; `None` means all. Nothing
/// is imported, and without an accelerator nothing is done. Memory that arrays use stays as it is.
///
/// Gives back which frameworks were cleared on which devices: `{"torch": [0]}`. A framework that
/// fails is a `RuntimeWarning`. Raises `TypeError` for a `device_id` that is no index.
///
/// >>> import arraybridge
/// >>> cleared = arraybridge.cleanup_all_gpu_frameworks()
#[pyfunction]
#[pyo3(signature = (device_id=None))]
fn cleanup_all_gpu_frameworks<'py>(
    py: Python<'py>,
    device_id: Option<usize>,
) -> Result<Bound<'py, PyDict>> {
    report(py, memory::clear_all(py, device_id)?)
}

/// Have one framework, if it is loaded, give back the device memory that it caches.
///
/// As `cleanup_all_gpu_frameworks`, for the framework of the name `memory_type`; raises `ValueError`
/// for an unknown name.
///
/// >>> from arraybridge.gpu_cleanup import MEMORY_TYPE_CLEANUP_REGISTRY
/// >>> MEMORY_TYPE_CLEANUP_REGISTRY["numpy"]()
/// {}
#[pyfunction]
#[pyo3(signature = (device_id=None, *, memory_type))]
fn cleanup_framework<'py>(
    py: Python<'py>,
    device_id: Option<usize>,
    memory_type: &Bound<'py, PyAny>,
) -> Result<Bound<'py, PyDict>> {
    report(py, memory::clear_one(py, framework(memory_type)?, device_id)?)
}

fn report(py: Python<'_>, cleared: Vec<Cleared>) -> Result<Bound<'_, PyDict>> {
    let done = PyDict::new(py);
    for Cleared { framework, device, error } in cleared {
        if let Some(error) = error {
            let text = format!("{framework} could not clear its cache on device {device}: {error}");
            let text = std::ffi::CString::new(text).unwrap_or_default();
            PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &text, 1)?;
            continue;
        }
        match done.get_item(framework)? {
            Some(devices) => devices.cast::<PyList>().map_err(PyErr::from)?.append(device)?,
            None => done.set_item(framework, [device])?,
        }
    }
    Ok(done)
}

/// The index of the accelerator that an array is on, `None` for one in host memory.
///
/// Raises `UnsupportedArrayError` for what is no array of a known framework.
///
/// >>> import numpy
/// >>> from arraybridge.utils import device_id
/// >>> device_id(numpy.zeros(3)) is None
/// True
#[pyfunction]
fn device_id(array: &Bound<'_, PyAny>) -> Result<Option<usize>> {
    use arraybridge_runtime::__private::package::{Device, device};
    let framework = package::class_of(array)?.framework;
    let ends = Endpoints::of(framework);
    let loaded = device::load(array.py(), framework, ends)?;
    Ok(match device::device_of(array.py(), loaded, array)? {
        Device::Host => None,
        Device::Accelerator(index) => Some(index),
    })
}

/// The names of the frameworks that are loaded, in the table's order.
///
/// >>> import numpy
/// >>> from arraybridge.utils import loaded_frameworks
/// >>> "numpy" in loaded_frameworks()
/// True
#[pyfunction]
fn loaded_frameworks(py: Python<'_>) -> Vec<&'static str> {
    let frameworks = MemoryType::ALL.map(MemoryType::framework).into_iter();
    frameworks.filter(|framework| memory::is_imported(py, framework)).map(|f| f.name).collect()
}

/// Adds them to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(stack_slices, module)?)?;
    module.add_function(wrap_pyfunction!(unstack_slices, module)?)?;
    module.add_function(wrap_pyfunction!(process_slices, module)?)?;
    module.add_function(wrap_pyfunction!(concatenate, module)?)?;
    module.add_function(wrap_pyfunction!(part, module)?)?;
    module.add_function(wrap_pyfunction!(cleanup_all_gpu_frameworks, module)?)?;
    module.add_function(wrap_pyfunction!(cleanup_framework, module)?)?;
    module.add_function(wrap_pyfunction!(device_id, module)?)?;
    module.add_function(wrap_pyfunction!(loaded_frameworks, module)?)?;
    Ok(())
}
