//! Declared functions as Python sees them.

use pyo3::exceptions::PyTypeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};

use super::attributes::set_attributes;
use super::call::Call;
use super::definition::{Binding, Definition, FunctionKind};
use super::passthrough::{self, Passthrough};
use super::result::ResultScope;
use super::steps;
use crate::framework::spec::Framework;
use crate::interpreter::error::Result;
use crate::interpreter::vectorcall::{self, vectorcall_class};
use crate::policy::Policy;

/// A function that takes arrays of any framework and receives those of the framework that it is
/// declared for.
///
/// The decorators create it. It is called like the function, with two more keywords.
/// `dtype_conversion` is the dtype of this call's result, as in `dtype_policy`. `slice_by_slice=True`
/// calls the function for each 2-D slice of the first array and stacks the results, as
/// `process_slices` does. `__wrapped__` is the function; `input_memory_type`, `output_memory_type` and
/// `execution_memory_type` are names of frameworks.
///
/// A call raises what the function raises, what `convert` raises for an argument or a result that
/// cannot be converted, and `ValueError` for a result that violates the contract. The default value
/// of a parameter is passed to the function as it is.
///
/// Examples
/// --------
/// >>> import numpy, arraybridge
/// >>> @arraybridge.numpy
/// ... def half(image):
/// ...     return image / 2
/// >>> half(numpy.array([100, 500], dtype="uint16"))
/// array([ 50, 250], dtype=uint16)
/// >>> half(numpy.array([1, 2], dtype="uint16"), dtype_conversion="native")
/// array([0.5, 1. ])
#[pyclass(frozen, dict, weakref, module = "arraybridge", name = "Declared")]
pub struct Declared {
    vectorcall: vectorcall::Slot<Declared>,
    definition: Definition,
}

vectorcall_class!(Declared, vectorcall, passthrough::call);

impl Declared {
    /// Declares a function.
    ///
    /// # Errors
    ///
    /// As [`Definition::new`].
    pub fn new<'py>(
        function: &Bound<'py, PyAny>,
        execution: &'static Framework,
        keywords: &Bound<'py, PyDict>,
    ) -> Result<Bound<'py, Declared>> {
        let py = function.py();
        let (definition, signature) = Definition::new(function, execution, keywords)?;
        let vectorcall = match definition.passthrough {
            // SAFETY: the function implements the vectorcall protocol for instances of `Declared`.
            Some(Passthrough::Unchecked) => unsafe {
                vectorcall::Slot::with_function(passthrough::vectorcall_unchecked)
            },
            _ => vectorcall::Slot::new(),
        };
        let declared = Bound::new(py, Declared { vectorcall, definition })?;
        static INSTALLED: PyOnceLock<()> = PyOnceLock::new();
        INSTALLED.get_or_init(py, || vectorcall::install(&declared));
        set_attributes(&declared, signature)?;
        Ok(declared)
    }

    /// The function and its declaration.
    #[inline]
    pub(super) fn definition(&self) -> &Definition {
        &self.definition
    }
}

#[pymethods]
impl Declared {
    #[pyo3(signature = (*args, **kwargs))]
    pub(super) fn __call__<'py>(
        slf: &Bound<'py, Self>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, definition) = (slf.py(), &slf.get().definition);
        let options = &definition.options;
        let mut policy = options.policy(py);
        let mut slice_by_slice = options.slice_by_slice;
        if let Some(kwargs) = kwargs {
            // The dictionary belongs to this call.
            let added = definition.parameters.take_added(kwargs, options)?;
            policy = Policy::from_py(added.dtype_conversion.as_ref(), None, policy)?;
            slice_by_slice = added.slice_by_slice;
        }
        let kwargs = kwargs.filter(|kwargs| !kwargs.is_empty());
        let mut call = Call::new(py, definition, args, kwargs, policy);
        call.find_arrays()?;
        match (definition.kind, slice_by_slice) {
            (FunctionKind::Plain, false) => {
                call.finish(call.recover(&call.slots)?, ResultScope::Call)
            }
            (FunctionKind::Plain, true) => call.slice_by_slice(),
            (_, false) => steps::start(slf, call),
            (_, true) => {
                let text = "slice_by_slice is for functions that return their result";
                Err(PyTypeError::new_err(text))
            }
        }
    }

    fn __get__<'py>(
        slf: &Bound<'py, Self>,
        instance: &Bound<'py, PyAny>,
        owner: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let bound_to = match slf.get().definition.binding {
            Binding::Static => None,
            Binding::Class if instance.is_none() => owner.cloned(),
            Binding::Class => {
                Some(owner.cloned().unwrap_or_else(|| instance.get_type().into_any()))
            }
            Binding::Instance => Some(instance.clone()).filter(|instance| !instance.is_none()),
        };
        let Some(object) = bound_to else { return Ok(slf.clone().into_any()) };
        method_class(slf.py())?.call1((slf, object))
    }

    /// Pickles a function that can be imported by its qualified name as this name, any other one as
    /// its function and its options.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        if let Some(name) = importable_name(slf) {
            return Ok(name);
        }
        let definition = &slf.get().definition;
        let function = definition.function.bind(py).clone();
        let builtins = py.import("builtins")?;
        let function = match definition.binding {
            Binding::Instance => function,
            Binding::Class => builtins.getattr("classmethod")?.call1((function,))?,
            Binding::Static => builtins.getattr("staticmethod")?.call1((function,))?,
        };
        let declare = py.import("arraybridge._core")?.getattr("_declare")?;
        let execution = definition.options.execution.name;
        let arguments = (function, execution, definition.keywords.bind(py));
        Ok((declare, arguments).into_pyobject(py)?.into_any())
    }

    fn __repr__(&self) -> String {
        let Definition { name, options, .. } = &self.definition;
        format!("<{name} declared for {}>", options.execution.name)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let definition = &self.definition;
        visit.call(&definition.function)?;
        visit.call(&definition.keywords)?;
        visit.call(&definition.options.host)?;
        definition.options.join.as_ref().map_or(Ok(()), |join| join.visit(&visit))?;
        visit.call(&definition.options.contract)
    }
}

/// `types.MethodType`.
fn method_class(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    CLASS.import(py, "types", "MethodType")
}

/// The qualified name of a declared function, if its module has this very object under it.
fn importable_name<'py>(declared: &Bound<'py, Declared>) -> Option<Bound<'py, PyAny>> {
    let py = declared.py();
    let name = declared.getattr(intern!(py, "__qualname__")).ok()?;
    let module: String = declared.getattr(intern!(py, "__module__")).ok()?.extract().ok()?;
    let modules = py.import("sys").ok()?.getattr("modules").ok()?;
    let module = modules.get_item(module).ok()?;
    let path: String = name.extract().ok()?;
    let found = path.split('.').try_fold(module, |object, part| object.getattr(part)).ok()?;
    found.is(declared).then_some(name)
}
