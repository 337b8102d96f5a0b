//! Calls through which a gradient of another framework flows. `arraybridge._graphs.gradients` makes them.

use arraybridge_runtime::interpreter::package::Part;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};

use super::definition::Definition;
use super::options::RULE;
use arraybridge_runtime::interpreter::error::Result;

/// Calls a function with arrays through which a gradient flows; `None` if there are none. `added` are the
/// values of the keywords that a declaration adds.
///
/// # Errors
///
/// Any exception that the function raises, what `convert` raises, and `NotDifferentiableError`.
#[cold]
pub fn call<'py>(
    definition: &Definition,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
    added: (Option<Bound<'py, PyAny>>, bool, bool),
) -> PyResult<Option<Bound<'py, PyAny>>> {
    static CALL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = args.py();
    let call = Part::Gradients.attribute(py, &CALL, "call")?;
    let framework = definition.options.execution.name;
    let rule = definition.keywords.bind(py).get_item(RULE)?;
    let function = (definition.function.bind(py), framework, &definition.name, rule);
    let result = call.call1((function, args, kwargs, added))?;
    Ok((!result.is(py.NotImplemented())).then_some(result))
}

/// The derivative that is given by hand, checked.
///
/// # Errors
///
/// `TypeError`.
pub fn rule<'py>(
    definition: &Definition,
    forward: &Bound<'py, PyAny>,
    backward: &Bound<'py, PyAny>,
    result: Option<&Bound<'py, PyAny>>,
) -> Result<Bound<'py, PyAny>> {
    let py = forward.py();
    let rule = Part::Gradients.get(py)?.getattr("rule")?;
    let framework = definition.options.execution.name;
    let function = (definition.function.bind(py), framework, &definition.name);
    let gives_input = definition.options.gives_input();
    Ok(rule.call1((function, gives_input, forward, backward, result))?)
}
