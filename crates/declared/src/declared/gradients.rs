//! Calls through which a gradient of another framework flows. `arraybridge._graphs.gradients` makes them.

use arraybridge_runtime::interpreter::package::Part;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyTuple};
use smallvec::SmallVec;

use super::definition::Definition;
use super::options::RULE;
use arraybridge_runtime::framework::detect::{self, Class};
use arraybridge_runtime::framework::generated::MemoryType;
use arraybridge_runtime::framework::loaded::{self, Loaded};
use arraybridge_runtime::framework::spec::Framework;
use arraybridge_runtime::interpreter::classes::is_builtin;
use arraybridge_runtime::interpreter::containers::DEEPEST;
use arraybridge_runtime::interpreter::error::{Result, attempt};

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
    let mut carriers = Carriers { own: definition.options.execution, known: SmallVec::new() };
    let mut is_plain = || {
        let mut may_carry = |value: Bound<'py, PyAny>| carriers.may_carry(&value, 0);
        !args.iter().any(&mut may_carry)
            && !kwargs.is_some_and(|kwargs| kwargs.values().iter().any(&mut may_carry))
    };
    if rule.is_none() && is_plain() {
        return Ok(None);
    }
    let function = (definition.function.bind(py), framework, &definition.name, rule);
    let result = call.call1((function, args, kwargs, added))?;
    Ok((!result.is(py.NotImplemented())).then_some(result))
}

/// The frameworks whose arrays a gradient may flow through.
struct Carriers<'py> {
    /// That of the function, which records by itself.
    own: &'static Framework,
    /// Those of the arguments, and whether their arrays say if a gradient flows through them.
    known: SmallVec<[(Loaded<'py>, bool); 2]>,
}

impl<'py> Carriers<'py> {
    /// Returns whether a gradient of another framework than the function's own may flow through an argument.
    fn may_carry(&mut self, value: &Bound<'py, PyAny>, depth: usize) -> bool {
        if depth > DEEPEST {
            true
        } else if let Ok(list) = value.cast_exact::<PyList>() {
            list.iter().any(|value| self.may_carry(&value, depth + 1))
        } else if let Ok(tuple) = value.cast_exact::<PyTuple>() {
            tuple.iter().any(|value| self.may_carry(&value, depth + 1))
        } else if let Ok(dict) = value.cast_exact::<PyDict>() {
            dict.iter().any(|(_, value)| self.may_carry(&value, depth + 1))
        } else if let Some(class) = detect::class_of(value).filter(Class::is_array) {
            let numpy = MemoryType::Numpy.framework();
            let has_none = class.framework.is(self.own) || class.framework.is(numpy);
            !has_none && (!class.own || self.array_may_carry(value, class.framework))
        } else {
            !is_builtin(value)
        }
    }

    /// Returns whether a gradient may flow through an array of a framework's own class.
    fn array_may_carry(
        &mut self,
        value: &Bound<'py, PyAny>,
        framework: &'static Framework,
    ) -> bool {
        let known = self.known.iter().find(|(loaded, _)| loaded.framework.is(framework)).copied();
        let found = known.or_else(|| {
            let loaded = attempt(value.py(), loaded::load(value.py(), framework))?;
            self.known.push((loaded, loaded.says_gradients()));
            self.known.last().copied()
        });
        found.is_none_or(|(loaded, says)| !says || loaded.is_recorded(value) == Some(true))
    }
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
