//! The decorators: one for each table, and one that names input and output.

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{Declared, names};
use crate::framework::spec::Framework;
use crate::interpreter::error::Result;

/// The part of a decorator's documentation that is the same for every table.
const OPTIONS: &str = "\
Parameters
----------
function : callable, optional
    A function, coroutine function, generator function, method or other callable. Without it, a
    decorator with the options is returned.
input_type, output_type : str or MemoryType, optional
    The frameworks of the arguments and of the results. An output type \"input\" is the framework of
    the first array argument.
input_dtype : str or dtype, optional
    The element type that arguments are cast to.
arrays : str or sequence of str, optional
    The parameters whose arrays are converted. All of them without it.
sliced : str or sequence of str, optional
    The parameters that are sliced and split together with the first array.
device : str or int, optional
    As in `convert`. Without it, that of the first array of the framework, else its current
    accelerator, else the host.
copy : bool, optional
    True hands the function memory of its own, False shares or raises CopyRequiredError.
dtype_conversion, scaling : optional
    The element type of results, and how floats become integers, as in `dtype_policy`.
oom_recovery : bool, optional
    False raises at once when memory runs out.
on_oom : str or sequence of str, optional
    The ways to try again, in order: \"clear\", \"split\", \"host\".
split_axis : int, optional
    The axis along which the first array may be split.
host : callable, optional
    The function that takes over on the host.
contract : callable, optional
    A function of the result. False is a ValueError.
slice_by_slice : bool, optional
    True calls the function for each 2-D slice of the first array, unless a call says otherwise.

Returns
-------
Declared
    It is called as the function is, with the further keywords `dtype_conversion` and
    `slice_by_slice`.

Raises
------
TypeError
    For an unknown option, a value of a wrong type, and for what cannot be called.
ValueError
    For an unknown framework, element type, device, way to try again or name of a parameter.";

/// A decorator for functions that work on one framework's arrays.
#[pyclass(frozen, dict, module = "arraybridge._core", name = "Decorator")]
pub struct Decorator {
    framework: &'static Framework,
    given: Option<Py<PyDict>>,
}

impl Decorator {
    /// The decorator of a table, with options.
    ///
    /// # Errors
    ///
    /// As [`Options::read`](super::Options::read).
    pub fn new<'py>(
        py: Python<'py>,
        framework: &'static Framework,
        given: Option<Bound<'py, PyDict>>,
    ) -> Result<Bound<'py, Decorator>> {
        if let Some(given) = &given {
            // A mistake in the options is told where they are written.
            super::Options::read(framework, given)?;
        }
        let given = given.map(Bound::unbind);
        let decorator = Bound::new(py, Decorator { framework, given })?;
        let title = framework.title;
        let doc = format!(
            "Declare that a function works on {title} arrays, whatever arrays it is called with.\n\n\
             Its array arguments, by position, by name and in lists and tuples, are converted to \
             {title} arrays on one device; the first array of its result gets the element type of \
             the first array argument. When memory runs out, the call is made again with caches \
             given back, then part by part where `split_axis` allows it, then on the host.\n\n\
             {OPTIONS}\n\n\
             Examples\n--------\n\
             >>> import numpy, arraybridge\n\
             >>> @arraybridge.{name}(output_type=\"numpy\")\n\
             ... def brighter(image, by=2):\n\
             ...     return image * by\n\
             >>> brighter(numpy.array([1, 2], dtype=\"float32\"))\n\
             array([2., 4.], dtype=float32)\n",
            name = framework.name,
        );
        decorator.setattr("__doc__", doc)?;
        decorator.setattr("__name__", framework.name)?;
        decorator.setattr("__qualname__", framework.name)?;
        Ok(decorator)
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
            None => Ok(Decorator::new(py, self.framework, Some(given))?.into_any()),
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.given)
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
    fn _restore<'py>(
        name: &Bound<'py, PyAny>,
        options: Option<Bound<'py, PyDict>>,
    ) -> Result<Bound<'py, Decorator>> {
        Decorator::new(name.py(), names::framework(name)?, options)
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
) -> Result<Bound<'py, Decorator>> {
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
    Decorator::new(py, names::framework(input_type)?, Some(given))
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
