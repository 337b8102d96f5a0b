//! The extension module `arraybridge._core`: names, signatures and docstrings. What they do is in
//! `arraybridge-runtime`.

#![forbid(unsafe_code)]

use arraybridge_runtime::convert::{self, Request};
use arraybridge_runtime::declared::{self, Declared, Decorator, names};
use arraybridge_runtime::device::Placement;
use arraybridge_runtime::error::{Ends, Result};
use arraybridge_runtime::generated::MemoryType;
use arraybridge_runtime::record::{NoCopy, Record, Trace};
use arraybridge_runtime::spec::{DType, Framework, Memory};
use arraybridge_runtime::{isolate, registry};
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
    let ends = Ends { source: target, target };
    let placement = match device {
        None => Placement::Auto,
        Some(device) => Placement::from_device(device, ends)?,
    };
    Ok(Request { placement, copy, dtype: element_type(dtype)? })
}

/// Convert an array of any framework to an array of another.
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
    convert::convert_to(data, target, &request(target, device, copy, dtype)?)
}

/// Convert an array of a named framework to another.
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
        Some(gpu_id) => Placement::from_gpu_id(gpu_id, Ends { source, target })?,
    };
    convert::convert_labelled(data, source, target, &Request { placement, copy, dtype: None })
}

/// The name of the framework that an array belongs to.
#[pyfunction]
fn detect_memory_type<'py>(data: &Bound<'py, PyAny>) -> Result<Bound<'py, PyString>> {
    Ok(PyString::intern(data.py(), convert::class_of(data)?.framework.name))
}

/// What a conversion would do, and why, without doing it.
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
    convert::explain(data, target, &request(target, device, copy, dtype)?)
}

/// The registered converters as pairs of names.
#[pyfunction]
fn converters() -> Vec<(&'static str, &'static str)> {
    registry::converters().map(|c| (c.source().name, c.target().name)).collect()
}

/// The tables that this module was built with.
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
#[pyfunction]
#[pyo3(signature = (input_type, output_type, contract=None, **options))]
fn memory_types<'py>(
    input_type: &Bound<'py, PyAny>,
    output_type: &Bound<'py, PyAny>,
    contract: Option<&Bound<'py, PyAny>>,
    options: Option<&Bound<'py, PyDict>>,
) -> Result<Bound<'py, Decorator>> {
    declared::memory_types(input_type, output_type, contract, options)
}

/// A declared function of its parts: what pickle calls.
#[pyfunction]
fn _declare<'py>(
    function: &Bound<'py, PyAny>,
    execution: &Bound<'py, PyAny>,
    options: &Bound<'py, PyDict>,
) -> Result<Bound<'py, Declared>> {
    declared::declare(function, execution, options)
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

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    isolate::at_start(module.py());
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<Record>()?;
    module.add_class::<Trace>()?;
    module.add_class::<NoCopy>()?;
    module.add_class::<Declared>()?;
    module.add_class::<Decorator>()?;
    module.add_function(wrap_pyfunction!(convert_, module)?)?;
    module.add_function(wrap_pyfunction!(convert_memory, module)?)?;
    module.add_function(wrap_pyfunction!(detect_memory_type, module)?)?;
    module.add_function(wrap_pyfunction!(explain, module)?)?;
    module.add_function(wrap_pyfunction!(converters, module)?)?;
    module.add_function(wrap_pyfunction!(frameworks, module)?)?;
    module.add_function(wrap_pyfunction!(decorators, module)?)?;
    module.add_function(wrap_pyfunction!(memory_types, module)?)?;
    module.add_function(wrap_pyfunction!(_declare, module)?)?;
    Ok(())
}
