//! Stacks of slices, and clearing of caches, for Python.

use arraybridge_declared::declared::names::framework;
use arraybridge_declared::policy::Policy;
use arraybridge_declared::slices;
use arraybridge_host::vectors;
use arraybridge_runtime::convert;
use arraybridge_runtime::framework::cleanup::{self, Cleared};
use arraybridge_runtime::framework::device::Device;
use arraybridge_runtime::framework::generated::MemoryType;
use arraybridge_runtime::framework::spec::Framework;
use arraybridge_runtime::framework::{loaded, registry, shape};
use arraybridge_runtime::interpreter::error::{Error, Result};
use arraybridge_runtime::interpreter::panic::memory_errors;
use pyo3::exceptions::{PyRuntimeWarning, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::placement;

/// The framework of the argument `memory_type`, which may also be given as `target_type`.
fn target_of(
    memory_type: Option<&Bound<'_, PyAny>>,
    target_type: Option<&Bound<'_, PyAny>>,
) -> Result<&'static Framework> {
    match (memory_type, target_type) {
        (Some(name), None) | (None, Some(name)) => framework(name),
        (None, None) => {
            Err(PyTypeError::new_err("name the framework of the result: memory_type=\"numpy\"")
                .into())
        }
        (Some(_), Some(_)) => {
            Err(PyTypeError::new_err("give only one of memory_type and target_type").into())
        }
    }
}

#[doc = doc!("__init__.stack_slices")]
#[pyfunction]
#[pyo3(signature = (
    slices, memory_type=None, gpu_id=None, *, target_type=None, device=None, out=None
))]
#[memory_errors]
fn stack_slices<'py>(
    slices: &Bound<'py, PyAny>,
    memory_type: Option<&Bound<'py, PyAny>>,
    gpu_id: Option<&Bound<'py, PyAny>>,
    target_type: Option<&Bound<'py, PyAny>>,
    device: Option<&Bound<'py, PyAny>>,
    out: Option<&Bound<'py, PyAny>>,
) -> Result<Bound<'py, PyAny>> {
    if let Some(out) = out {
        expect_no_target("stack_slices", [memory_type, target_type, gpu_id, device])?;
        return stack_to(slices, out);
    }
    let target = target_of(memory_type, target_type)?;
    let slices: Vec<_> = match slices.cast_exact::<PyList>() {
        Ok(list) => list.iter().collect(),
        Err(_) => vectors::collect(slices.try_iter()?.map(|slice| slice.map_err(Error::from)))?,
    };
    slices::stack(&slices, target, placement(gpu_id, device, target)?)
}

/// The error of an argument that says where a result belongs, beside `out`.
fn expect_no_target(function: &str, arguments: [Option<&Bound<'_, PyAny>>; 4]) -> Result<()> {
    if arguments.iter().all(Option::is_none) {
        return Ok(());
    }
    let text = format!(
        "{function}(): out is the result, so it cannot have another framework or device; leave memory_type, gpu_id \
         and device away"
    );
    Err(PyTypeError::new_err(text).into())
}

/// Writes slices to an array, one by one.
fn stack_to<'py>(slices: &Bound<'py, PyAny>, out: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
    let (py, name) = (slices.py(), "stack_slices");
    let given = slices.cast::<PyList>().map(|list| list.iter().collect()).unwrap_or_default();
    let sink = slices::Sink::checked(out, given, Vec::new(), Policy::default(), name)?;
    let wrong = |text: String| Error::Value(format!("{name}(): {text}"));
    let room: usize = out.getattr("shape")?.get_item(0)?.extract().unwrap_or(0);
    // Nothing is written if it is known before that the number is wrong.
    let mut count = slices.len().unwrap_or(room);
    if count == room {
        count = 0;
        for slice in slices.try_iter()? {
            py.check_signals()?;
            let slice = slices::slice_in(&slice?, count, MemoryType::Numpy.framework())?;
            if count < room {
                sink.write_row(&slice, room, count)?;
            }
            count += 1;
        }
    }
    match count == room && room > 0 {
        true => Ok(out.clone()),
        false => Err(wrong(format!("out has room for {room} slices, and there are {count}"))),
    }
}

#[doc = doc!("__init__.unstack_slices")]
#[pyfunction]
#[pyo3(signature = (
    array, memory_type=None, gpu_id=None, validate_slices=true, *, target_type=None, device=None, out=None
))]
#[memory_errors]
fn unstack_slices<'py>(
    array: &Bound<'py, PyAny>,
    memory_type: Option<&Bound<'py, PyAny>>,
    gpu_id: Option<&Bound<'py, PyAny>>,
    validate_slices: bool,
    target_type: Option<&Bound<'py, PyAny>>,
    device: Option<&Bound<'py, PyAny>>,
    out: Option<&Bound<'py, PyAny>>,
) -> Result<Bound<'py, PyList>> {
    if let Some(out) = out {
        expect_no_target("unstack_slices", [memory_type, target_type, gpu_id, device])?;
        return unstack_to(array, out);
    }
    let target = target_of(memory_type, target_type)?;
    let parts = slices::unstack(array, target, placement(gpu_id, device, target)?)?;
    // All slices of one array have the same number of axes. A class of a framework's may make others.
    if validate_slices && !parts.is_empty() {
        let first = parts.get_item(0)?;
        let Some(axes) = shape::ndim(&first) else {
            let (title, kind) = (target.title, first.get_type().name()?);
            return Err(Error::Value(format!(
                "{title} made a slice that is not an array but a {kind}; convert the array to another \
                 framework before you take it apart, or pass validate_slices=False"
            )));
        };
        if axes != 2 {
            return Err(Error::Value(format!("the slices have {axes} axes instead of 2")));
        }
    }
    Ok(parts)
}

/// Writes each slice of a stack to an array of its own.
fn unstack_to<'py>(
    array: &Bound<'py, PyAny>,
    out: &Bound<'py, PyAny>,
) -> Result<Bound<'py, PyList>> {
    let name = "unstack_slices";
    let given = Opened::of(array)?;
    let layout = slices::Layout::first(1, given.axes_of_stack()?);
    let outs = out.try_iter()?.collect::<PyResult<Vec<_>>>()?;
    let sinks = outs.iter().map(|out| {
        slices::Sink::checked(out, vec![array.clone()], Vec::new(), Policy::default(), name)
    });
    let sinks = sinks.collect::<Result<Vec<_>>>()?;
    slices::expect_apart(&outs, name)?;
    let stack = given.stack(&layout)?;
    let (room, count) = (sinks.len(), stack.lengths()[0]);
    if room != count {
        let text = format!("{name}(): out has {room} arrays, and there are {count} slices");
        return Err(Error::Value(text));
    }
    stack.each(&mut |position, slice| sinks[position[0]].write_whole(&slice))?;
    Ok(PyList::new(array.py(), outs)?)
}

/// An array in memory, or the stand-in for one that is read part by part.
struct Opened<'a, 'py> {
    array: Bound<'py, PyAny>,
    lazy: Option<&'a Bound<'py, PyAny>>,
}

impl<'a, 'py> Opened<'a, 'py> {
    fn of(object: &'a Bound<'py, PyAny>) -> Result<Opened<'a, 'py>> {
        let stand_in = slices::lazy::stand_in(object)?;
        let lazy = stand_in.as_ref().map(|_| object);
        Ok(Opened { array: stand_in.map_or_else(|| seen(object), Ok)?, lazy })
    }

    /// The number of axes of a stack of 2-D slices.
    fn axes_of_stack(&self) -> Result<usize> {
        match slices::leading_axes(&self.array)? {
            1 => Ok(3),
            _ => Err(Error::Value(format!(
                "Array must be 3D, a stack of 2D slices, but its shape is {}",
                shape::text(&self.array)
            ))),
        }
    }

    fn stack<'b>(&'b self, layout: &'b slices::Layout) -> Result<slices::Stack<'b, 'py>> {
        let shape = shape::of(&self.array).unwrap_or_default();
        match self.lazy {
            Some(lazy) => Ok(slices::Stack::lazy(lazy, layout, &shape)),
            None => slices::Stack::leading(&self.array, layout),
        }
    }
}

#[doc = doc!("__init__.process_slices")]
#[pyfunction]
#[pyo3(signature = (image, func, args=None, kwargs=None, gpu_id=None, *, device=None, out=None))]
#[memory_errors]
fn process_slices<'py>(
    image: &Bound<'py, PyAny>,
    func: &Bound<'py, PyAny>,
    args: Option<&Bound<'py, PyAny>>,
    kwargs: Option<&Bound<'py, PyDict>>,
    gpu_id: Option<&Bound<'py, PyAny>>,
    device: Option<&Bound<'py, PyAny>>,
    out: Option<&Bound<'py, PyAny>>,
) -> Result<Bound<'py, PyAny>> {
    let py = image.py();
    let given = Opened::of(image)?;
    let image = &given.array;
    let framework = convert::class_of(image)?.framework;
    let more = match args {
        Some(args) => args.try_iter()?.collect::<PyResult<Vec<_>>>()?,
        None => Vec::new(),
    };
    let target = Some((framework, placement(gpu_id, device, framework)?));
    let name = func.getattr("__name__").map_or_else(|_| "slices".into(), |name| name.to_string());
    let merge = slices::Merge { name: &name, target, ..slices::Merge::default() };
    let shape = shape::of(image).unwrap_or_default();
    let layout = slices::Layout::first(slices::leading_axes(image)?, shape.len());
    let sink = match out {
        Some(out) => {
            let cut = vec![image.clone()];
            Some(slices::Sink::checked(out, more.clone(), cut, Policy::default(), &name)?)
        }
        None => None,
    };
    let stack = given.stack(&layout)?;
    let mut call = |position: &[usize], slice| {
        let args = PyTuple::new(py, [slice].iter().chain(&more).collect::<Vec<_>>())?;
        let result = func.call(args, kwargs)?;
        match &sink {
            Some(sink) => sink.write_slice(&stack, position, result),
            None => Ok(result),
        }
    };
    // What the function makes belongs where the slices are.
    let loaded = loaded::load(py, framework)?;
    let merged = match loaded.device_of(image)? {
        Device::Host => slices::process(&stack, &merge, &mut call)?,
        there => {
            loaded.within(there, |_: Option<&_>| Ok(slices::process(&stack, &merge, &mut call)?))?
        }
    };
    match &sink {
        Some(sink) => sink.settle(sink.merged(merged)?),
        None => Ok(merged),
    }
}

#[doc = doc!("stack_utils.concatenate")]
#[pyfunction]
#[memory_errors]
fn concatenate<'py>(parts: Vec<Bound<'py, PyAny>>, axis: isize) -> Result<Bound<'py, PyAny>> {
    let axis = match parts.first() {
        Some(first) if axis < 0 => axis_of(&seen(first)?, axis)?,
        _ => axis as usize,
    };
    slices::concatenate(&parts, axis)
}

/// The index of an axis, which counts from the last one if it is negative.
fn axis_of(array: &Bound<'_, PyAny>, axis: isize) -> Result<usize> {
    let axes = shape::of(array).map_or(0, |shape| shape.len());
    let found = if axis < 0 { axes.checked_add_signed(axis) } else { usize::try_from(axis).ok() };
    found.ok_or_else(|| Error::Value(format!("an array with {axes} axes has no axis {axis}")))
}

/// An array, or what an object that is like one holds.
fn seen<'py>(array: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
    convert::as_array(array, MemoryType::Numpy.framework())
}

#[doc = doc!("stack_utils.part")]
#[pyfunction]
#[memory_errors]
fn part<'py>(
    array: &Bound<'py, PyAny>,
    axis: isize,
    start: isize,
    stop: isize,
) -> Result<Bound<'py, PyAny>> {
    let array = seen(array)?;
    let axis = axis_of(&array, axis)?;
    let [Ok(from), Ok(to)] = [start, stop].map(usize::try_from) else {
        let text = format!("start and stop must not be negative, as in {start} to {stop}");
        return Err(Error::Value(text));
    };
    slices::region(&array, &[(axis, from..to)])
}

#[doc = doc!("__init__.cleanup_all_gpu_frameworks")]
#[pyfunction]
#[pyo3(signature = (device_id=None))]
#[memory_errors]
fn cleanup_all_gpu_frameworks<'py>(
    py: Python<'py>,
    device_id: Option<usize>,
) -> Result<Bound<'py, PyDict>> {
    let all: Vec<_> = registry::all().collect();
    report(py, cleanup::clear_accelerators(py, &all, device_id)?)
}

/// Clear the device memory caches of one framework, if it is loaded.
///
/// Like `cleanup_all_gpu_frameworks`, but for the framework `memory_type`. Raises `ValueError` if
/// that is unknown.
///
/// >>> from arraybridge.gpu_cleanup import MEMORY_TYPE_CLEANUP_REGISTRY
/// >>> MEMORY_TYPE_CLEANUP_REGISTRY["numpy"]()
/// {}
#[pyfunction]
#[pyo3(signature = (device_id=None, *, memory_type))]
#[memory_errors]
fn cleanup_framework<'py>(
    py: Python<'py>,
    device_id: Option<usize>,
    memory_type: &Bound<'py, PyAny>,
) -> Result<Bound<'py, PyDict>> {
    report(py, cleanup::clear_accelerators(py, &[framework(memory_type)?], device_id)?)
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

#[doc = doc!("utils.device_id")]
#[pyfunction]
#[memory_errors]
fn device_id(array: &Bound<'_, PyAny>) -> Result<Option<usize>> {
    use arraybridge_runtime::framework::device::Device;
    use arraybridge_runtime::framework::loaded;
    let framework = convert::class_of(array)?.framework;
    let loaded = loaded::load(array.py(), framework)?;
    Ok(match loaded.device_of(array)? {
        Device::Host => None,
        Device::Accelerator(index) => Some(index),
    })
}

#[doc = doc!("utils.loaded_frameworks")]
#[pyfunction]
fn loaded_frameworks(py: Python<'_>) -> Vec<&'static str> {
    let frameworks = registry::all();
    frameworks.filter(|framework| loaded::is_imported(py, framework)).map(|f| f.name).collect()
}

/// Adds the functions of this file to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add_functions! { module;
        stack_slices, unstack_slices, process_slices, concatenate, part, cleanup_all_gpu_frameworks,
        cleanup_framework, device_id, loaded_frameworks
    }
    Ok(())
}
