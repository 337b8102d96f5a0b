//! The operations of a table, carried out one by one for `python -m arraybridge check`.

use arraybridge_runtime::framework::load::parsed;
use arraybridge_runtime::interpreter::panic::memory_errors;
use pyo3::exceptions::PySyntaxError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Return the value of an operation of a table, of the framework's module and of the other names that it may use.
#[pyfunction]
#[memory_errors]
pub fn _evaluate<'py>(
    op: &str,
    module: &Bound<'py, PyAny>,
    scope: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    let names: Vec<String> = scope.keys().extract()?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let values: Vec<_> = scope.values().iter().collect();
    parsed::evaluate(op, module, &names, &values.iter().collect::<Vec<_>>()).map_err(|faults| {
        let messages: Vec<_> = faults.into_iter().map(|fault| fault.message).collect();
        PySyntaxError::new_err(format!("{op}: {}", messages.join("; ")))
    })?
}
