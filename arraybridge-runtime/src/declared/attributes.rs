//! The attributes of a declared function, most of which are copied from the function.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use super::Declared;
use super::definition::{Definition, FunctionKind};
use super::options::OutputType;

/// Makes a declared function look like its function, with the signature that it shows and the
/// attributes that callers of the original package read.
pub(super) fn set_attributes(
    declared: &Bound<'_, PyAny>,
    definition: &Definition,
    signature: Option<Bound<'_, PyAny>>,
) -> PyResult<()> {
    static DRESS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let (py, Definition { options, keywords, .. }) = (declared.py(), definition);
    // A Python function has the attributes already.
    let function = declared.is_instance_of::<Declared>().then_some(&definition.function);
    let output = match options.output {
        OutputType::Fixed(framework) => framework.name,
        OutputType::Input => "input",
    };
    let types = (options.usual_input.name, output, options.execution.name);
    let is_coroutine = definition.kind == FunctionKind::Coroutine;
    let dress = DRESS.import(py, "arraybridge._function", "dress")?;
    dress.call1((declared, function, signature, types, keywords, is_coroutine)).map(drop)
}
