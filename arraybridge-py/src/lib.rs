//! The extension module `arraybridge._core`: names, signatures and docstrings. The behaviour is in
//! `arraybridge-runtime`.

#![forbid(unsafe_code)]
#![allow(clippy::doc_lazy_continuation, reason = "docstrings are no Markdown")]

/// The docstring of a function, which `build.rs` takes from the stub: `stub.function`.
macro_rules! doc {
    ($name:literal) => {
        include_str!(concat!(env!("OUT_DIR"), "/", $name))
    };
}

/// Adds functions to a module.
macro_rules! add_functions {
    ($module:expr; $($function:path),*) => {
        $($module.add_function(pyo3::wrap_pyfunction!($function, $module)?)?;)*
    };
}

mod ops;
mod policy;
mod slices;
mod trees;

use arraybridge_declared::declared::{self, Declared, names};
use arraybridge_declared::policy::{Narrow, Policy, narrow_named};
use arraybridge_host::dtype::DType;
use arraybridge_runtime::convert::record::Record;
use arraybridge_runtime::convert::{self, Narrowing, Request, registry, trace};
use arraybridge_runtime::cuda::thread_stream::ThreadStream;
use arraybridge_runtime::framework::device::Placement;
use arraybridge_runtime::framework::endpoints::Endpoints;
use arraybridge_runtime::framework::generated::{KEYS, TABLES};
use arraybridge_runtime::framework::spec::{Framework, Isolate, Memory};
use arraybridge_runtime::framework::{self, detect, loaded, oom, shortcuts};
use arraybridge_runtime::interpreter::error::{Error, Result};
use arraybridge_runtime::interpreter::package::{PARTS, Part};
use arraybridge_runtime::interpreter::panic::{memory_errors, note_places};
use arraybridge_runtime::interpreter::park::rather_than_end;
use arraybridge_runtime::memory::numpy_array::borrows;
use arraybridge_runtime::{c_api, tensor};
use arraybridge_table::{Problems, Source};
use ops::_evaluate;
use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

/// The argument `copy`.
fn flag(copy: Option<&Bound<'_, PyAny>>) -> Result<Option<bool>> {
    copy.map(|copy| names::flag("copy", copy)).transpose()
}

/// The dtype that an optional argument names.
fn element_type(dtype: Option<&Bound<'_, PyAny>>) -> Result<Option<DType>> {
    dtype.map(names::dtype).transpose()
}

fn request(
    py: Python<'_>,
    target: &'static Framework,
    device: Option<&Bound<'_, PyAny>>,
    copy: Option<&Bound<'_, PyAny>>,
    dtype: Option<&Bound<'_, PyAny>>,
) -> Result<Request> {
    let placement = placement(None, device, target)?;
    let copy = trace::or_always_copy(py, flag(copy)?);
    let cast = element_type(dtype)?.into();
    Ok(Request { placement, copy, cast, ..Request::default() })
}

/// The placement that one of two arguments names.
fn placement(
    gpu_id: Option<&Bound<'_, PyAny>>,
    device: Option<&Bound<'_, PyAny>>,
    target: &'static Framework,
) -> Result<Placement> {
    match (gpu_id, device) {
        (None, None) => Ok(Placement::Auto),
        (Some(gpu_id), None) => Placement::from_gpu_id(gpu_id, target),
        (None, Some(device)) => Placement::from_device(device, target),
        (Some(_), Some(_)) => Err(Error::Type("give only one of gpu_id and device".to_string())),
    }
}

#[doc = doc!("__init__.convert")]
#[pyfunction(name = "convert")]
#[pyo3(signature = (data, target, *, device=None, copy=None, dtype=None, keep=None))]
#[memory_errors]
fn convert_<'py>(
    data: &Bound<'py, PyAny>,
    target: &Bound<'py, PyAny>,
    device: Option<&Bound<'py, PyAny>>,
    copy: Option<&Bound<'py, PyAny>>,
    dtype: Option<&Bound<'py, PyAny>>,
    keep: Option<&Bound<'py, PyAny>>,
) -> Result<Bound<'py, PyAny>> {
    let framework = names::framework(target)?;
    let ask = || {
        convert::convert_to(data, framework, &request(data.py(), framework, device, copy, dtype)?)
    };
    match keep {
        None => ask().or_else(|error| match convert::may_have_unit(data) {
            true => kept("_converted", (data, target, device, copy, dtype, keep)),
            false => Err(error),
        }),
        Some(_) => kept("_converted", (data, target, device, copy, dtype, keep)),
    }
}

/// Convert an array to the nearest dtype that the target has, with a warning, or explain that.
#[pyfunction]
#[pyo3(signature = (data, target, *, function, is_explained, device=None, copy=None))]
fn _narrowed<'py>(
    data: &Bound<'py, PyAny>,
    target: &Bound<'py, PyAny>,
    function: &str,
    is_explained: bool,
    device: Option<&Bound<'_, PyAny>>,
    copy: Option<&Bound<'_, PyAny>>,
) -> Result<Bound<'py, PyAny>> {
    let (py, framework) = (data.py(), names::framework(target)?);
    let mut request = request(py, framework, device, copy, None)?;
    if !is_explained {
        let narrowing = || Some(Narrowing { function });
        return Ok(convert::convert_narrowed(data, framework, &request, narrowing)?.0);
    }
    let source = loaded::load(py, convert::class_of(data)?.framework)?;
    let nearest = source.dtype(data).map(|from| convert::narrowed(py, from, framework));
    request.cast = nearest.transpose()?.flatten().into();
    Ok(Bound::new(py, convert::explain(data, framework, &request)?)?.into_any())
}

/// The arguments of `convert`.
type Asked<'a, 'py> = (
    &'a Bound<'py, PyAny>,
    &'a Bound<'py, PyAny>,
    Option<&'a Bound<'py, PyAny>>,
    Option<&'a Bound<'py, PyAny>>,
    Option<&'a Bound<'py, PyAny>>,
    Option<&'a Bound<'py, PyAny>>,
);

/// The result of a function about objects with an array inside, for the arguments of `convert`.
#[cold]
fn kept<'py>(function: &str, asked: Asked<'_, 'py>) -> Result<Bound<'py, PyAny>> {
    let wrappers = Part::Wrappers.get(asked.0.py())?;
    Ok(wrappers.call_method1(function, asked)?)
}

#[doc = doc!("__init__.convert_memory")]
#[pyfunction]
#[pyo3(signature = (data, source_type, target_type, gpu_id=None, *, device=None, copy=None))]
#[memory_errors]
fn convert_memory<'py>(
    data: &Bound<'py, PyAny>,
    source_type: &Bound<'py, PyAny>,
    target_type: &Bound<'py, PyAny>,
    gpu_id: Option<&Bound<'py, PyAny>>,
    device: Option<&Bound<'py, PyAny>>,
    copy: Option<&Bound<'py, PyAny>>,
) -> Result<Bound<'py, PyAny>> {
    let (source, target) = (names::framework(source_type)?, names::framework(target_type)?);
    let endpoints = Endpoints { source, target };
    let placement = placement(gpu_id, device, target).map_err(|error| endpoints.name_in(error))?;
    let allows = Policy::default_of_context(data.py()).narrow == Narrow::Warn;
    let copy = trace::or_always_copy(data.py(), flag(copy)?);
    let request = Request { placement, copy, ..Request::default() };
    let convert = |data: &Bound<'py, PyAny>| {
        let narrowing = Narrowing { function: "convert_memory" };
        convert::convert_labelled(data, endpoints, &request, allows.then_some(narrowing))
    };
    convert(data).or_else(|error| match convert::scalar_as_array(data) {
        Some(array) => convert(&array),
        None => Err(error),
    })
}

#[doc = doc!("__init__.detect_memory_type")]
#[pyfunction]
#[memory_errors]
fn detect_memory_type<'py>(data: &Bound<'py, PyAny>) -> Result<Bound<'py, PyString>> {
    Ok(detect::name_of(data.py(), convert::class_of(data)?.framework).clone())
}

#[doc = doc!("__init__.explain")]
#[pyfunction]
#[pyo3(signature = (data, target, *, device=None, copy=None, dtype=None, keep=None))]
#[memory_errors]
fn explain<'py>(
    data: &Bound<'py, PyAny>,
    target: &Bound<'py, PyAny>,
    device: Option<&Bound<'py, PyAny>>,
    copy: Option<&Bound<'py, PyAny>>,
    dtype: Option<&Bound<'py, PyAny>>,
    keep: Option<&Bound<'py, PyAny>>,
) -> Result<Bound<'py, PyAny>> {
    let framework = names::framework(target)?;
    let py = data.py();
    let request = request(py, framework, device, copy, dtype)?;
    match convert::explain(data, framework, &request) {
        Err(_) if convert::may_have_unit(data) => {
            kept("_explained", (data, target, device, copy, dtype, keep))
        }
        record => Ok(Bound::new(py, record?)?.into_any()),
    }
}

#[doc = doc!("__init__.registered_pairs")]
#[pyfunction]
fn registered_pairs(py: Python<'_>) -> Vec<(&'static str, &'static str)> {
    framework::registry::discover(py, None);
    registry::converters().map(|c| (c.source.name, c.target.name)).collect()
}

#[doc = doc!("__init__.frameworks")]
#[pyfunction]
#[memory_errors]
fn frameworks(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    framework::registry::discover(py, None);
    described(py, framework::registry::all())
}

/// The frameworks that are known so far, as `frameworks` describes them.
#[pyfunction]
#[memory_errors]
fn _frameworks(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    described(py, framework::registry::all())
}

/// Load the tables in a text, whose name in messages is `label`. Return their frameworks and the mistakes in it.
#[pyfunction]
#[memory_errors]
fn _load_table<'py>(
    py: Python<'py>,
    label: &str,
    text: &str,
) -> PyResult<(Bound<'py, PyList>, Vec<String>)> {
    match framework::tables::load(label, text) {
        Ok(loaded) => Ok((described(py, loaded.into_iter())?, Vec::new())),
        Err(mistakes) => Ok((PyList::empty(py), mistakes)),
    }
}

/// The files of tables that this process knows, as they are written, each with its name in messages.
#[pyfunction]
fn _tables() -> Vec<(String, String)> {
    framework::tables::sources(|source| (source.label.clone(), source.text.clone()))
}

fn described<'py>(
    py: Python<'py>,
    frameworks: impl Iterator<Item = &'static Framework>,
) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for framework in frameworks {
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

/// Check the options of a decorator, and return the name and the title of its framework.
#[pyfunction]
#[memory_errors]
fn _check_options(
    framework: &Bound<'_, PyAny>,
    options: &Bound<'_, PyDict>,
) -> Result<(&'static str, &'static str)> {
    declared::check_options(framework, options).map(|framework| (framework.name, framework.title))
}

/// Make a declared function from its parts. The decorators, pickle and extension modules call this.
#[pyfunction]
#[pyo3(signature = (function, execution, options, is_public=false))]
#[memory_errors]
fn _declare<'py>(
    function: &Bound<'py, PyAny>,
    execution: &Bound<'py, PyAny>,
    options: &Bound<'py, PyDict>,
    is_public: bool,
) -> Result<Bound<'py, PyAny>> {
    declared::declare(function, execution, options, is_public)
}

/// Convert the result of a Rust function to a framework that lacks its dtype. Extension modules call this.
#[pyfunction]
#[memory_errors]
fn _narrow<'py>(
    data: &Bound<'py, PyAny>,
    target: &Bound<'py, PyAny>,
    device: Option<&Bound<'py, PyAny>>,
    function: &str,
    narrow: Option<&Bound<'py, PyAny>>,
) -> Result<Bound<'py, PyAny>> {
    let target = names::framework(target)?;
    let request = request(data.py(), target, device, None, None)?;
    let narrow = match narrow {
        Some(narrow) => narrow_named(narrow)?,
        None => Policy::default_of_context(data.py()).narrow,
    };
    let narrowing = (narrow == Narrow::Warn).then_some(Narrowing { function });
    let endpoints = Endpoints { source: convert::class_of(data)?.framework, target };
    convert::convert_labelled(data, endpoints, &request, narrowing)
}

/// Return whether an object is a declared function.
#[pyfunction]
fn _is_declared(object: &Bound<'_, PyAny>) -> bool {
    Declared::of(object).is_some()
}

/// Return the framework of an array and None, or that of a declared function and the function; None for other objects.
#[pyfunction]
fn _known<'py>(object: &Bound<'py, PyAny>) -> Option<(&'static str, Option<Bound<'py, PyAny>>)> {
    if let Ok(class) = convert::class_of(object) {
        return Some((class.framework.name, None));
    }
    let (framework, function) = Declared::of(object)?.get().parts(object.py());
    Some((framework.name, Some(function)))
}

/// Call a function without arguments on the device of an array, which is made current in the array's framework.
#[pyfunction]
fn _beside<'py>(array: &Bound<'py, PyAny>, call: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
    let has_device = |class: &detect::Class| class.is_array() && class.framework.enters_devices();
    let Some(class) = detect::class_of(array).filter(has_device) else { return Ok(call.call0()?) };
    let loaded = loaded::load(array.py(), class.framework)?;
    Ok(loaded.on(loaded.device_of(array)?, || call.call0())?)
}

#[doc = doc!("oom_recovery.is_oom_error")]
#[pyfunction]
#[pyo3(signature = (error, memory_type=None))]
#[memory_errors]
fn is_oom_error(
    error: Bound<'_, PyBaseException>,
    memory_type: Option<&Bound<'_, PyAny>>,
) -> Result<bool> {
    let wanted = memory_type.map(names::framework).transpose()?;
    let (py, error) = (error.py(), PyErr::from_value(error.into_any()));
    let found = oom::framework_of(py, &error, wanted);
    Ok(found.is_some_and(|found| wanted.is_none_or(|w| w.memory_type == found.memory_type)))
}

#[doc = doc!("oom_recovery.execute_with_oom_recovery")]
#[pyfunction]
#[pyo3(signature = (func, memory_type, max_retries=2))]
#[memory_errors]
fn execute_with_oom_recovery<'py>(
    func: &Bound<'py, PyAny>,
    memory_type: &Bound<'py, PyAny>,
    max_retries: usize,
) -> Result<Bound<'py, PyAny>> {
    Ok(declared::ladder::retry(func, names::framework(memory_type)?, max_retries)?)
}

/// Make this module check rust-numpy's borrows, unless another one does already. Return whether it does.
#[pyfunction]
#[memory_errors]
fn _publish_borrows(py: Python<'_>) -> PyResult<bool> {
    borrows::publish(py)
}

/// Returns the mistakes that the build would find in files of tables, a list of names and texts. Each begins with the
/// name, the line and the column.
#[pyfunction]
fn _mistakes(files: Vec<(String, String)>) -> Vec<String> {
    let mut sources = vec![arraybridge_table::embedded()];
    sources.extend(files.into_iter().map(|(label, text)| Source { label, text }));
    arraybridge_table::read(&sources).map_or_else(Problems::messages, |_| Vec::new())
}

/// The libraries that a framework's table isolates: its module, the library, and the module with the same symbols.
#[pyfunction]
fn _isolated(name: &Bound<'_, PyAny>) -> Result<Vec<(&'static str, &'static str, &'static str)>> {
    let Framework { module, isolate, .. } = names::framework(name)?;
    let libraries = isolate.iter().flat_map(|Isolate { libraries, from }| {
        libraries.iter().map(|library| (*module, *library, *from))
    });
    Ok(libraries.collect())
}

/// Count traces and `no_copy` blocks that were opened; those that were closed are negative.
#[pyfunction]
fn _count_blocks(traces: isize, strict: isize) {
    trace::count_blocks(traces, strict);
}

// `docs/how-to/threads.md` says what is tested without the GIL.
#[pymodule(gil_used = false)]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    rather_than_end(module.py());
    note_places();
    shortcuts::check()?;
    framework::registry::prepare();
    module.add(PARTS, PyDict::new(module.py()))?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<Record>()?;
    trace::install(module)?;
    module.add_class::<ThreadStream>()?;
    module.add_class::<Declared>()?;
    // The files of this build, as they are written: `python -m arraybridge add --build` keeps them.
    module.add("_TABLES", PyTuple::new(module.py(), TABLES)?)?;
    module.add("_KEYS", KEYS)?;
    tensor::add_class(module)?;
    add_functions! { module;
        _isolated, _count_blocks, _mistakes, _publish_borrows, convert_, _narrowed, convert_memory, _evaluate,
        detect_memory_type, explain, registered_pairs, frameworks, _frameworks, _load_table, _tables, _check_options, _declare,
        _narrow, _is_declared, _known, _beside, is_oom_error, execute_with_oom_recovery
    }
    c_api::publish(module)?;
    policy::register(module)?;
    trees::register(module)?;
    slices::register(module)
}
