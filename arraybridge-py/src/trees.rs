//! The answers to what `arraybridge.trees` asks about the nodes and the leaves of a tree.

use arraybridge_declared::declared::watch_dynamo;
use arraybridge_runtime::convert::record::{Record, within};
use arraybridge_runtime::convert::trace::{gathered, push_made};
use arraybridge_runtime::convert::{forget_classes, is_buffer, is_like_array};
use arraybridge_runtime::framework::detect::class_of as known_class;
use arraybridge_runtime::interpreter::containers::{Container, DEEPEST};
use arraybridge_runtime::interpreter::park::rather_than_end;
use pyo3::prelude::*;

/// Return the items of a container and whether it is an object with fields; None for
/// another object.
#[pyfunction]
fn _opened<'py>(node: &Bound<'py, PyAny>) -> PyResult<Option<(Vec<Bound<'py, PyAny>>, bool)>> {
    let Some(container) = Container::of(node) else { return Ok(None) };
    Ok(Some((container.items()?, container.is_instance())))
}

/// Return where the items of a container are, as Python writes it.
#[pyfunction]
fn _places(node: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    Container::of(node).map_or_else(|| Ok(Vec::new()), |container| container.names())
}

/// Return a container like `node` with other items.
#[pyfunction]
fn _rebuilt<'py>(
    node: &Bound<'py, PyAny>,
    items: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    match Container::of(node) {
        Some(container) => container.with(items),
        None => Ok(node.clone()),
    }
}

/// Return "array" for the array of a framework, "like" for what is like one, "buffer" for what is only a buffer and need
/// not hold numbers, and None for another object.
#[pyfunction]
fn _likeness(data: &Bound<'_, PyAny>) -> Option<&'static str> {
    if known_class(data).is_some() {
        Some("array")
    } else if !is_like_array(data) {
        None
    } else if is_buffer(data) {
        Some("buffer")
    } else {
        Some("like")
    }
}

/// Call a function and return its result, the records of its conversions, which no trace gets, and when it began.
///
/// Without a trace, there are no records, and the beginning is None.
#[pyfunction]
fn _gathered<'py>(
    function: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyAny>, Vec<Record>, Option<u64>)> {
    rather_than_end(function.py());
    gathered(|| function.call0())
}

/// Give a record that was made of others, or by an extension module, to the traces. With `start`, it ends now.
#[pyfunction]
#[pyo3(signature = (record, start, is_span=false))]
fn _push(record: &Bound<'_, Record>, start: Option<u64>, is_span: bool) {
    push_made(record.py(), record.get().clone(), start, is_span);
}

/// Call a function whose conversions are of the array in an object of a class, which their records name.
#[pyfunction]
fn _within<'py>(class: String, function: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    rather_than_end(function.py());
    within(class, || function.call0())
}

/// Look at the classes of objects again, since one was registered.
#[pyfunction]
fn _forget_classes() {
    forget_classes();
}

/// Have calls that Dynamo leaves outside its graph hidden from it.
#[pyfunction]
fn _watch_dynamo() {
    watch_dynamo();
}

/// Adds the functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("_DEEPEST", DEEPEST)?;
    module.add_function(wrap_pyfunction!(_opened, module)?)?;
    module.add_function(wrap_pyfunction!(_places, module)?)?;
    module.add_function(wrap_pyfunction!(_rebuilt, module)?)?;
    module.add_function(wrap_pyfunction!(_likeness, module)?)?;
    module.add_function(wrap_pyfunction!(_within, module)?)?;
    module.add_function(wrap_pyfunction!(_forget_classes, module)?)?;
    module.add_function(wrap_pyfunction!(_watch_dynamo, module)?)?;
    module.add_function(wrap_pyfunction!(_gathered, module)?)?;
    module.add_function(wrap_pyfunction!(_push, module)?)
}
