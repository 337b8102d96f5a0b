//! Arguments as errors name them.

use pyo3::types::PyStringMethods;

use super::ArgumentKey;
use crate::declared::definition::Definition;
use arraybridge_runtime::interpreter::error::Error;

/// The parameter that an argument is passed for, or its number.
pub fn of_parameter(definition: &Definition, key: &ArgumentKey<'_>) -> String {
    match key {
        ArgumentKey::Positional(index) => match definition.parameters.name_of(*index) {
            Some(name) => format!("'{name}'"),
            None => (index + 1).to_string(),
        },
        ArgumentKey::Keyword(name) => format!("'{}'", name.to_string_lossy()),
    }
}

/// Returns whether an argument is passed for one of some parameters.
pub fn is_among(definition: &Definition, key: &ArgumentKey<'_>, parameters: &[String]) -> bool {
    let is_named = |name: &str| parameters.iter().any(|parameter| parameter == name);
    match key {
        _ if parameters.is_empty() => false,
        ArgumentKey::Positional(index) => {
            definition.parameters.name_of(*index).is_some_and(is_named)
        }
        ArgumentKey::Keyword(name) => is_named(&name.to_string_lossy()),
    }
}

/// The function and the argument.
pub fn of_argument(definition: &Definition, key: &ArgumentKey<'_>) -> String {
    format!("{}(): argument {}", definition.name, of_parameter(definition, key))
}

/// An error that says which argument it is about, unless it says so already.
#[cold]
pub fn in_argument(definition: &Definition, key: &ArgumentKey<'_>, error: Error) -> Error {
    error.in_place(&definition.name, &format!("argument {}", of_parameter(definition, key)))
}

/// An error about a container that says which argument that is.
#[cold]
pub fn of_container(definition: &Definition, key: &ArgumentKey<'_>, error: Error) -> Error {
    match error {
        Error::Type(text) => Error::Type(format!("{}: {text}", of_argument(definition, key))),
        error => error,
    }
}
