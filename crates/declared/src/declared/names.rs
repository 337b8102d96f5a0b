//! Frameworks and dtypes by the names that users write.

use arraybridge_runtime::intern;
use pyo3::prelude::*;
use pyo3::types::{PyModule, PyString, PyType};

use arraybridge_runtime::framework::detect;
use arraybridge_runtime::framework::generated::MemoryType;
use arraybridge_runtime::framework::registry;
use arraybridge_runtime::framework::spec::Framework;
use arraybridge_runtime::interpreter::classes;
use arraybridge_runtime::interpreter::error::{Error, Result};

pub use crate::policy::dtype_named as dtype;

/// The names that frameworks are imported as, for suggestions.
const ALIASES: [(&str, &str); 5] = [
    ("np", "numpy"),
    ("cp", "cupy"),
    ("tf", "tensorflow"),
    ("jnp", "jax"),
    ("cle", "pyclesperanto"),
];

/// The framework that a name, a `MemoryType`, the framework's module or an array class stands for.
///
/// # Errors
///
/// [`Error::UnknownFramework`] for an unknown name, module or class, [`Error::Type`] for another object;
/// both list the known names.
#[inline]
pub fn framework(name: &Bound<'_, PyAny>) -> Result<&'static Framework> {
    let Ok(text) = name.cast::<PyString>() else { return framework_of_object(name) };
    let text = text.to_str()?;
    match MemoryType::from_name(text) {
        Some(found) => Ok(found.framework()),
        None => discovered(name.py(), || MemoryType::from_name(text))
            .map(MemoryType::framework)
            .ok_or_else(|| unknown(text)),
    }
}

/// What is found among the tables of installed packages, which are read when something is unknown.
#[cold]
fn discovered<T>(py: Python<'_>, find: impl Fn() -> Option<T>) -> Option<T> {
    registry::discover(py, None).then(find).flatten()
}

/// The framework of a module or of an array class.
#[cold]
fn framework_of_object(object: &Bound<'_, PyAny>) -> Result<&'static Framework> {
    if let Ok(module) = object.cast::<PyModule>() {
        let name = module.getattr(intern!(module.py(), "__name__"))?.to_string();
        let of_module = || registry::all().find(|f| f.module == name);
        let found = of_module().or_else(|| discovered(module.py(), of_module));
        return found.ok_or_else(|| unknown(&name));
    }
    if let Ok(class) = object.cast::<PyType>() {
        let name = || classes::shown_name(class);
        let found = detect::framework_of_class(class).or_else(|| framework_of_public_class(class));
        return found.ok_or_else(|| unknown(&name()));
    }
    Err(Error::Type(format!(
        "a memory type must be a str, a MemoryType, a framework's module or its array class (known are \
         {}), not {}",
        known(),
        object.get_type().name()?
    )))
}

/// The framework whose table has a class by the name under which it is public, which may not be the one that the class
/// gives itself: `jax.Array` calls itself `jax.jaxlib._jax.Array`.
fn framework_of_public_class(class: &Bound<'_, PyType>) -> Option<&'static Framework> {
    let modules = class.py().import("sys").and_then(|sys| sys.getattr("modules")).ok()?;
    let is_public_as = |name: &str| {
        let (module, name) = name.rsplit_once('.')?;
        Some(modules.get_item(module).ok()?.getattr(name).ok()?.is(class))
    };
    registry::all().find(|f| f.classes.iter().any(|name| is_public_as(name) == Some(true)))
}

fn known() -> String {
    registry::all().map(|framework| framework.name).collect::<Vec<_>>().join(", ")
}

#[cold]
fn unknown(name: &str) -> Error {
    let hint = meant(name).map_or_else(String::new, |meant| format!("did you mean {meant:?}? "));
    let reason = format!("unknown framework {name:?}; {hint}known frameworks are {}", known());
    Error::UnknownFramework { name: name.to_owned(), reason }
}

/// The framework that is probably meant by a name that is not quite its own.
fn meant(name: &str) -> Option<&'static str> {
    let name = name.trim().to_lowercase();
    let alias = ALIASES.into_iter().find(|(alias, _)| *alias == name).map(|(_, meant)| meant);
    let is_called = |f: &&Framework| {
        [f.name, f.module, f.install].contains(&name.as_str()) || f.title.to_lowercase() == name
    };
    let called = registry::all().find(is_called).map(|framework| framework.name);
    called.or(alias.filter(|alias| MemoryType::from_name(alias).is_some()))
}

/// True or False, of Python or of NumPy.
///
/// # Errors
///
/// [`Error::Type`] for anything else.
pub fn flag(name: &str, value: &Bound<'_, PyAny>) -> Result<bool> {
    match value.extract() {
        Ok(value) => Ok(value),
        Err(_) => Err(Error::Type(format!(
            "{name} must be True or False, not {}",
            value.get_type().name()?
        ))),
    }
}
