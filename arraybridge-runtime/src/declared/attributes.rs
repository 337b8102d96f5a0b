//! The attributes of a declared function, most of which are copied from the function.

use pyo3::intern;
use pyo3::prelude::*;

use super::Declared;
use super::definition::{Definition, FunctionKind};
use super::options::OutputType;

/// What is copied besides the function's `__dict__`. `inspect` finds the kind of a function by its code
/// and its defaults.
const COPIED: [&str; 8] = [
    "__module__",
    "__name__",
    "__qualname__",
    "__doc__",
    "__annotations__",
    "__code__",
    "__defaults__",
    "__kwdefaults__",
];

/// Copies the attributes of a function to an object; a Python function has them already.
fn copy_attributes(declared: &Bound<'_, PyAny>, function: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = declared.py();
    if let Ok(dict) = function.getattr(intern!(py, "__dict__")) {
        declared.getattr(intern!(py, "__dict__"))?.call_method1("update", (dict,))?;
    }
    // An object that can be called, such as a torch module, need not have a name.
    let class = function.get_type();
    declared.setattr("__name__", class.name()?)?;
    declared.setattr("__qualname__", class.qualname()?)?;
    for name in COPIED {
        if let Ok(value) = function.getattr(name) {
            declared.setattr(name, value)?;
        }
    }
    declared.setattr("__wrapped__", function)
}

/// Makes a declared function look like its function, with the signature that it shows and the
/// attributes that callers of the original package read.
pub(super) fn set_attributes(
    declared: &Bound<'_, PyAny>,
    definition: &Definition,
    signature: Option<Bound<'_, PyAny>>,
) -> PyResult<()> {
    let py = declared.py();
    if declared.is_instance_of::<Declared>() {
        copy_attributes(declared, definition.function.bind(py))?;
    }
    if let Some(signature) = signature {
        declared.setattr("__signature__", signature)?;
    }
    let options = &definition.options;
    let output = match options.output {
        OutputType::Fixed(framework) => framework.name,
        OutputType::Input => "input",
    };
    declared.setattr("input_memory_type", options.usual_input.name)?;
    declared.setattr("output_memory_type", output)?;
    declared.setattr("execution_memory_type", options.execution.name)?;
    if let Some(contract) = definition.keywords.bind(py).get_item("contract")? {
        if !contract.is_none() && !contract.is_callable() {
            // The original package's runtimes read it.
            declared.setattr("__processing_contract__", &contract)?;
        }
        declared.setattr("contract", contract)?;
    }
    if definition.kind == FunctionKind::Coroutine
        && let Ok(mark) = py.import("inspect")?.getattr("markcoroutinefunction")
    {
        mark.call1((declared,))?;
    }
    Ok(())
}
