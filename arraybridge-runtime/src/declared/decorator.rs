//! The decorators: one for each table, and one that names input and output.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{Declared, names};
use crate::error::Result;
use crate::spec::Framework;

/// A decorator for functions that work on one framework's arrays.
#[pyclass(frozen, module = "arraybridge", name = "Decorator")]
pub struct Decorator {
    framework: &'static Framework,
    given: Option<Py<PyDict>>,
}

impl Decorator {
    /// The decorator of a table.
    pub fn new(framework: &'static Framework) -> Decorator {
        Decorator { framework, given: None }
    }
}

#[pymethods]
impl Decorator {
    /// Declares `function`; without one, gives a decorator with these options.
    #[pyo3(signature = (function=None, /, **options))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        function: Option<&Bound<'py, PyAny>>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> Result<Bound<'py, PyAny>> {
        let given = match &self.given {
            Some(given) => given.bind(py).copy()?,
            None => PyDict::new(py),
        };
        if let Some(options) = options {
            given.update(options.as_mapping())?;
        }
        match function {
            Some(function) => Ok(Declared::new(function, self.framework, &given)?.into_any()),
            None => {
                // A mistake in the options is told where they are written.
                super::Options::read(self.framework, &given)?;
                let given = Some(given.unbind());
                let decorator = Decorator { framework: self.framework, given };
                Ok(Bound::new(py, decorator)?.into_any())
            }
        }
    }

    #[getter]
    fn __name__(&self) -> &'static str {
        self.framework.name
    }

    #[getter]
    fn __qualname__(&self) -> &'static str {
        self.framework.name
    }

    #[getter]
    fn __doc__(&self) -> String {
        let title = self.framework.title;
        format!(
            "Declare that a function works on {title} arrays, whatever arrays it is called with.\n\n\
             Its array arguments, by position, by name and in lists and tuples, are converted to \
             {title} arrays on one device; the arrays of its result get the element type of the \
             first argument."
        )
    }

    fn __repr__(&self) -> String {
        format!("<decorator arraybridge.{}>", self.framework.name)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let class = py.get_type::<Decorator>();
        let plain = class.getattr("_restore")?;
        let none = py.None().into_bound(py);
        let given = self.given.as_ref().map_or(none, |given| given.bind(py).clone().into_any());
        Ok((plain, (self.framework.name, given)).into_pyobject(py)?.into_any())
    }

    /// The decorator of a name and its options, for pickle.
    #[staticmethod]
    #[pyo3(signature = (name, options))]
    fn _restore(name: &Bound<'_, PyAny>, options: Option<Py<PyDict>>) -> Result<Decorator> {
        Ok(Decorator { framework: names::framework(name)?, given: options })
    }
}

/// A decorator for functions that take arrays of `input_type` and give arrays of `output_type`.
///
/// # Errors
///
/// As [`Options::read`](super::Options::read).
pub fn memory_types<'py>(
    input_type: &Bound<'py, PyAny>,
    output_type: &Bound<'py, PyAny>,
    contract: Option<&Bound<'py, PyAny>>,
    options: Option<&Bound<'py, PyDict>>,
) -> Result<Decorator> {
    let py = input_type.py();
    let given = PyDict::new(py);
    given.set_item("input_type", input_type)?;
    given.set_item("output_type", output_type)?;
    if let Some(contract) = contract {
        given.set_item("contract", contract)?;
    }
    if let Some(options) = options {
        given.update(options.as_mapping())?;
    }
    let framework = names::framework(input_type)?;
    super::Options::read(framework, &given)?;
    Ok(Decorator { framework, given: Some(given.unbind()) })
}

/// A declared function of its parts, for pickle.
///
/// # Errors
///
/// As [`Declared::new`].
pub fn declare<'py>(
    function: &Bound<'py, PyAny>,
    execution: &Bound<'py, PyAny>,
    options: &Bound<'py, PyDict>,
) -> Result<Bound<'py, Declared>> {
    Declared::new(function, names::framework(execution)?, options)
}
