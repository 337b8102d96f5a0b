//! Calls through which a gradient of another framework flows. `arraybridge._gradients` makes them.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};

use super::Declared;
use crate::interpreter::error::Result;

/// The option with the derivative that is given by hand, which `defvjp` sets.
pub const RULE: &str = "vjp";

/// Calls a function with arrays through which a gradient flows; `None` if there are none. `added` are the
/// values of the keywords that a declaration adds.
///
/// # Errors
///
/// What the function raises, what `convert` raises, and `NotDifferentiableError`.
#[cold]
pub fn call<'py>(
    declared: &Bound<'py, Declared>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
    added: (Option<Bound<'py, PyAny>>, bool),
) -> PyResult<Option<Bound<'py, PyAny>>> {
    static CALL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let (py, definition) = (declared.py(), declared.get().definition());
    let call = CALL.import(py, "arraybridge._gradients", "call")?;
    let framework = definition.options.execution.name;
    let rule = definition.keywords.bind(py).get_item(RULE)?;
    let function = (definition.function.bind(py), framework, &definition.name, rule);
    let result = call.call1((function, args, kwargs, added))?;
    Ok((!result.is(py.NotImplemented())).then_some(result))
}

/// Checks that a declaration goes with `differentiable=True`.
///
/// # Errors
///
/// `ValueError` or `TypeError`.
pub fn check(
    py: Python<'_>,
    framework: &str,
    name: &str,
    keywords: &Bound<'_, PyDict>,
) -> Result<()> {
    let check = py.import("arraybridge._gradients")?.getattr("check")?;
    check.call1((framework, name, keywords))?;
    Ok(())
}

/// The derivative that is given by hand, checked.
///
/// # Errors
///
/// `TypeError`.
pub fn rule<'py>(
    declared: &Bound<'py, Declared>,
    forward: &Bound<'py, PyAny>,
    backward: &Bound<'py, PyAny>,
    result: Option<&Bound<'py, PyAny>>,
) -> Result<Bound<'py, PyAny>> {
    let (py, definition) = (declared.py(), declared.get().definition());
    let rule = py.import("arraybridge._gradients")?.getattr("rule")?;
    let framework = definition.options.execution.name;
    let function = (definition.function.bind(py), framework, &definition.name);
    let gives_input = definition.options.gives_input();
    Ok(rule.call1((function, gives_input, forward, backward, result))?)
}
