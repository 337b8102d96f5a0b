//! Recognising out-of-memory errors by the rules of the tables.

use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use crate::framework::detect::qualified_name;
use crate::framework::generated::MemoryType;
use crate::framework::loaded;
use crate::framework::registry;
use crate::framework::spec::{ErrorRule, Framework};
use crate::interpreter::error::{attempt, is_device_memory};
use crate::interpreter::interrupt::is_interrupt;

/// The framework whose memory ran out, if the exception is an out-of-memory error.
///
/// The most specific class in the exception's method resolution order decides: CuPy's error is also
/// a `MemoryError`. Among the frameworks with rules for that class, `asked` comes first, which is the one that a
/// function was declared for, then those whose rule has a test or a text: every exception of a class may come
/// from any of them.
pub fn framework_of(
    py: Python<'_>,
    error: &PyErr,
    asked: Option<&'static Framework>,
) -> Option<&'static Framework> {
    let class = error.get_type(py);
    let mro = class.getattr(crate::intern!(py, "__mro__")).ok()?;
    for base in mro.cast::<PyTuple>().ok()?.iter() {
        let Some(name) = qualified_name(&base) else { continue };
        if name == DEVICE_MEMORY
            && let Some(framework) = named(py, error)
        {
            return Some(framework);
        }
        let has_rule = |framework: &&'static Framework, is_specific: bool| {
            let of_class =
                |rule: &&ErrorRule| rule.class == name && rule.is_specific() >= is_specific;
            framework.oom.iter().filter(of_class).any(|rule| applies(py, framework, rule, error))
        };
        let found = asked.filter(|framework| has_rule(framework, false));
        let found = found.or_else(|| registry::all().find(|framework| has_rule(framework, true)));
        let found = found.or_else(|| registry::all().find(|framework| has_rule(framework, false)));
        if found.is_some() {
            return found;
        }
    }
    None
}

/// The class of [`Error::DeviceMemory`](crate::interpreter::error::Error::DeviceMemory).
const DEVICE_MEMORY: &str = "arraybridge.DeviceMemoryError";

/// The framework of the declared function that ran out of device memory, as the error names it.
fn named(py: Python<'_>, error: &PyErr) -> Option<&'static Framework> {
    let name = error.value(py).getattr(crate::intern!(py, "memory_type")).ok()?;
    MemoryType::from_name(name.cast::<PyString>().ok()?.to_str().ok()?).map(MemoryType::framework)
}

/// Adds the framework to an error about device memory that does not name one yet.
pub fn belongs_to(py: Python<'_>, error: &PyErr, framework: &Framework) -> PyResult<()> {
    if is_device_memory(py, error) && named(py, error).is_none() {
        error.value(py).setattr(crate::intern!(py, "memory_type"), framework.name)?;
    }
    Ok(())
}

/// Returns whether an exception means that an operation of a framework lacks the dtype of an array.
pub fn lacks_dtype(py: Python<'_>, error: &PyErr, framework: &'static Framework) -> bool {
    if framework.gaps.is_empty() {
        return false;
    }
    let classes = error.get_type(py).mro();
    let names: Vec<_> = classes.iter().filter_map(|class| qualified_name(&class)).collect();
    let is_of = |rule: &&ErrorRule| names.iter().any(|name| rule.class == *name);
    framework.gaps.iter().filter(is_of).any(|rule| applies(py, framework, rule, error))
}

fn applies(py: Python<'_>, framework: &'static Framework, rule: &ErrorRule, error: &PyErr) -> bool {
    let text = rule.text.is_none_or(|text| {
        let message = error.value(py).to_string().to_lowercase();
        message.contains(&text.to_lowercase())
    });
    let test = rule.when.is_none_or(|when| {
        let Some(loaded) = attempt(py, loaded::load(py, framework)) else { return false };
        let answer = when.holds(loaded, [error.value(py).as_any()]);
        attempt(py, answer).unwrap_or(false)
    });
    text && test
}

/// Returns whether an exception leaves a conversion unchanged: an out-of-memory error, which
/// callers and the recovery ladder recognise by its class, or an interrupt.
pub fn passes_through(py: Python<'_>, error: &PyErr) -> bool {
    is_interrupt(py, error) || framework_of(py, error, None).is_some()
}
