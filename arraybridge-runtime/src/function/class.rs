//! Declared functions as Python sees them.

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use super::{Call, Declaration, FunctionEntry, Returns};
use crate::error::Result;
use crate::generated::MemoryType;
use crate::spec::Framework;

/// A declared Rust function.
#[pyclass(frozen, dict, weakref, module = "arraybridge", name = "RustFunction")]
pub struct Function {
    pub(super) declaration: Declaration,
}

#[pymethods]
impl Function {
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        slf: &Bound<'py, Self>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> Result<Bound<'py, PyAny>> {
        let call = Call::bind(slf, args, kwargs)?;
        (slf.get().declaration.entry.call)(&call)
    }

    #[getter]
    fn __signature__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let inspect = py.import("inspect")?;
        let class = inspect.getattr("Parameter")?;
        let kind = class.getattr("POSITIONAL_OR_KEYWORD")?;
        let parameters = PyList::empty(py);
        for parameter in self.declaration.entry.parameters {
            let keywords = PyDict::new(py);
            if let Some(default) = parameter.default {
                keywords.set_item("default", default(py)?)?;
            }
            parameters.append(class.call((parameter.name, &kind), Some(&keywords))?)?;
        }
        inspect.getattr("Signature")?.call1((parameters,))
    }

    #[getter]
    fn __text_signature__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.__signature__(py)?.to_string())
    }

    fn __repr__(&self) -> String {
        format!(
            "<Rust function {} declared for {}>",
            self.declaration.entry.name, self.declaration.framework.name
        )
    }

    /// By its name in its module.
    fn __reduce__(&self) -> &'static str {
        self.declaration.entry.name
    }
}

fn framework(name: &'static str) -> PyResult<&'static Framework> {
    let found = MemoryType::from_name(name).map(MemoryType::framework);
    // The attribute knows the tables that its crate was built with, the runtime its own.
    found.ok_or_else(|| PyImportError::new_err(format!("this build has no framework {name:?}")))
}

/// Adds every function of this extension crate that is declared with `#[memory_type(..)]` to its
/// module, in the order of their names.
///
/// # Errors
///
/// `ImportError` when two functions have one name, or a framework is not in this build's tables.
pub fn export(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let mut entries: Vec<_> = inventory::iter::<FunctionEntry>.into_iter().collect();
    entries.sort_by_key(|entry| (entry.name, entry.module));
    if let Some(pair) = entries.windows(2).find(|pair| pair[0].name == pair[1].name) {
        let [one, other] = pair else { unreachable!("windows of two") };
        let text = format!(
            "two declared functions are called {}: in {} and in {}; give one another `name`",
            one.name, one.module, other.module
        );
        return Err(PyImportError::new_err(text));
    }
    entries.into_iter().try_for_each(|entry| add(module, entry))
}

fn add(module: &Bound<'_, PyModule>, entry: &'static FunctionEntry) -> PyResult<()> {
    let framework = framework(entry.framework)?;
    let output = match entry.returns {
        Returns::Framework(name) => Some(self::framework(name)?),
        Returns::Input => None,
    };
    let declaration = Declaration { entry, framework, output };
    let function = Bound::new(module.py(), Function { declaration })?;
    let attributes = [
        ("__name__", entry.name),
        ("__qualname__", entry.name),
        ("__doc__", entry.docs),
        ("input_memory_type", framework.name),
        ("output_memory_type", output.map_or("input", |output| output.name)),
        ("execution_memory_type", framework.name),
    ];
    for (name, value) in attributes {
        function.setattr(name, value)?;
    }
    function.setattr("__module__", module.name()?)?;
    module.add(entry.name, function)
}
