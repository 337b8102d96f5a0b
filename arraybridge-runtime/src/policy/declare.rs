//! How users say which policy they want: arguments, and a default for the context.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyTuple};

use super::{Conversion, Policy};
use crate::framework::spec::DType;
use crate::host::cast::Scaling;
use crate::interpreter::error::{Error, Result};

const PRESERVE: &str = "preserve";
const NATIVE: &str = "native";

const SCALINGS: [(&str, Scaling); 3] =
    [("clamp", Scaling::Clamp), ("unit", Scaling::Unit), ("stretch", Scaling::Stretch)];

impl Policy {
    /// Reads the arguments `dtype_conversion` and `scaling`; what is `None` is taken from `base`.
    ///
    /// A conversion is a member of any enum, by its value, or a string: `"preserve"`, `"native"`,
    /// their upper case names, a dtype's name; or a framework's dtype object. An object with an
    /// attribute `default_dtype_conversion` stands for that.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] for a name that is none, [`Error::Type`] for another object.
    pub fn from_py(
        dtype_conversion: Option<&Bound<'_, PyAny>>,
        scaling: Option<&Bound<'_, PyAny>>,
        base: Policy,
    ) -> Result<Policy> {
        let given = |argument: Option<&Bound<'_, PyAny>>| argument.is_some_and(|a| !a.is_none());
        let conversion = match dtype_conversion {
            Some(object) if given(dtype_conversion) => conversion(object)?,
            _ => base.conversion,
        };
        let scaling = match scaling {
            Some(object) if given(scaling) => scaling_named(object)?,
            _ => base.scaling,
        };
        Ok(Policy { conversion, scaling })
    }

    /// The default of the current context: the innermost `dtype_policy` block, or
    /// [`Policy::default`].
    pub fn default_of_context(py: Python<'_>) -> Policy {
        if OWNER.load(Ordering::Relaxed) && !USED.load(Ordering::Relaxed) {
            return Policy::default();
        }
        let read = || -> Result<Policy> {
            let value = variable(py)?.call_method0(pyo3::intern!(py, "get"))?;
            let Ok(parts) = value.cast::<PyTuple>() else { return Ok(Policy::default()) };
            let (conversion, scaling) = (parts.get_item(0)?, parts.get_item(1)?);
            Policy::from_py(Some(&conversion), Some(&scaling), Policy::default())
        };
        read().unwrap_or_default()
    }

    /// The names of both parts, by which the context remembers them.
    fn names(self) -> (&'static str, &'static str) {
        let conversion = match self.conversion {
            Conversion::PreserveInput => PRESERVE,
            Conversion::NativeOutput => NATIVE,
            Conversion::Force(dtype) => dtype.name(),
        };
        let scaling = SCALINGS.iter().find(|(_, scaling)| *scaling == self.scaling);
        (conversion, scaling.map_or("clamp", |(name, _)| name))
    }
}

fn conversion(object: &Bound<'_, PyAny>) -> Result<Conversion> {
    let mut value = by_value(object);
    if !value.is_instance_of::<PyString>()
        && let Ok(config) = value.getattr("default_dtype_conversion")
    {
        value = by_value(&config);
    }
    let name = name_of(&value)?;
    let short = name.rsplit('.').next().unwrap_or_default().to_lowercase();
    match short.as_str() {
        PRESERVE | "preserve_input" => Ok(Conversion::PreserveInput),
        NATIVE | "native_output" => Ok(Conversion::NativeOutput),
        name => {
            DType::from_name(name).map(Conversion::Force).ok_or_else(|| unknown_conversion(object))
        }
    }
}

#[cold]
fn unknown_conversion(object: &Bound<'_, PyAny>) -> Error {
    let names: Vec<_> = DType::ALL.iter().map(|dtype| dtype.name()).collect();
    let text = object.repr().map(|text| text.to_string()).unwrap_or_default();
    Error::Value(format!(
        "dtype_conversion {text} is none; use DtypeConversion, {PRESERVE:?}, {NATIVE:?} or a dtype: \
         {}",
        names.join(", ")
    ))
}

/// An enum's member by its value: callers have enums of their own.
fn by_value<'py>(object: &Bound<'py, PyAny>) -> Bound<'py, PyAny> {
    if object.is_instance_of::<PyString>()
        && object.get_type().is(object.py().get_type::<PyString>())
    {
        return object.clone();
    }
    object.getattr(pyo3::intern!(object.py(), "value")).unwrap_or_else(|_| object.clone())
}

/// The name that a string, a dtype object or a type of scalars has.
fn name_of(object: &Bound<'_, PyAny>) -> Result<String> {
    if let Ok(name) = object.cast::<PyString>() {
        return Ok(name.to_str()?.to_owned());
    }
    let attribute = |name: &str| object.getattr(name).ok()?.extract::<String>().ok();
    match attribute("name").or_else(|| attribute("__name__")) {
        Some(name) => Ok(name),
        None => Ok(object.str()?.to_string()),
    }
}

/// The element type of a name or of any framework's dtype object: `"uint16"`, `numpy.uint16`,
/// `numpy.dtype("uint16")`, `torch.uint16`, `tf.uint16`, `DtypeConversion.UINT16`.
///
/// # Errors
///
/// [`Error::Value`] for anything else.
pub fn dtype_named(object: &Bound<'_, PyAny>) -> Result<DType> {
    let name = name_of(&by_value(object))?;
    let short = name.rsplit('.').next().unwrap_or_default();
    DType::from_name(short).ok_or_else(|| {
        let known: Vec<_> = DType::ALL.iter().map(|dtype| dtype.name()).collect();
        Error::Value(format!("unknown dtype {name:?}; known are {}", known.join(", ")))
    })
}

fn scaling_named(object: &Bound<'_, PyAny>) -> Result<Scaling> {
    let value = by_value(object);
    let name = value.cast::<PyString>().ok().map(|name| name.to_string().to_lowercase());
    let found = SCALINGS.iter().find(|(known, _)| Some(*known) == name.as_deref());
    found.map(|(_, scaling)| *scaling).ok_or_else(|| {
        let text = object.repr().map(|text| text.to_string()).unwrap_or_default();
        Error::Value(format!("scaling {text} is none; use \"clamp\", \"unit\" or \"stretch\""))
    })
}

/// Whether this module made the context variable, so that it knows when it is set.
static OWNER: AtomicBool = AtomicBool::new(false);

/// Whether a `dtype_policy` block was ever entered.
static USED: AtomicBool = AtomicBool::new(false);

/// The name under which the wheel's module keeps the variable.
const VARIABLE: &str = "_dtype_policy";

fn new_variable<'py>(py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
    let default = PyDict::new(py);
    default.set_item("default", py.None())?;
    let class = py.import("contextvars")?.getattr("ContextVar")?;
    class.call(("arraybridge.dtype_policy",), Some(&default))
}

static CELL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Puts the context variable into the wheel's module, where other extension modules find it.
///
/// # Errors
///
/// What Python raises.
pub fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let variable = CELL.get_or_try_init(py, || new_variable(py).map(Bound::unbind))?;
    OWNER.store(true, Ordering::Relaxed);
    module.add(VARIABLE, variable)
}

fn variable(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    let find = || -> PyResult<Py<PyAny>> {
        let shared = py.import("arraybridge._core").and_then(|module| module.getattr(VARIABLE));
        // A program that embeds Python without the package has a default of its own.
        shared.or_else(|_| new_variable(py)).map(Bound::unbind)
    };
    Ok(CELL.get_or_try_init(py, find)?.bind(py))
}

/// Set the default dtype policy of declared functions: `with dtype_policy(scaling="unit"):`.
///
/// `dtype_conversion` is a `DtypeConversion`, "preserve", "native" or a dtype; `scaling` is
/// "clamp" (round half to even, saturate, NaN to 0), "unit" (results of [0, 1] or [-1, 1]) or
/// "stretch" (minimum to maximum). What is left out stays as it is outside of the block. What a
/// decorator or a call says itself goes before the default. The block affects its own context:
/// its thread, or its asyncio task.
///
/// Raises `ValueError` for an unknown name, and `RuntimeError` when one object is entered twice.
///
/// >>> import arraybridge
/// >>> with arraybridge.dtype_policy(dtype_conversion="native"):
/// ...     pass  # declared functions keep the dtype that they return
#[pyclass(module = "arraybridge", name = "dtype_policy")]
pub struct DtypePolicy {
    dtype_conversion: Option<Py<PyAny>>,
    scaling: Option<Py<PyAny>>,
    token: Option<Py<PyAny>>,
}

impl DtypePolicy {
    fn policy(&self, py: Python<'_>, base: Policy) -> Result<Policy> {
        let conversion = self.dtype_conversion.as_ref().map(|object| object.bind(py));
        Policy::from_py(conversion, self.scaling.as_ref().map(|object| object.bind(py)), base)
    }
}

#[pymethods]
impl DtypePolicy {
    #[new]
    #[pyo3(signature = (dtype_conversion=None, scaling=None))]
    fn new(
        py: Python<'_>,
        dtype_conversion: Option<Py<PyAny>>,
        scaling: Option<Py<PyAny>>,
    ) -> Result<DtypePolicy> {
        let made = DtypePolicy { dtype_conversion, scaling, token: None };
        made.policy(py, Policy::default())?;
        Ok(made)
    }

    fn __enter__(&mut self, py: Python<'_>) -> Result<()> {
        if self.token.is_some() {
            return Err(Error::Python(PyRuntimeError::new_err(
                "this block is already open; make another one with arraybridge.dtype_policy()",
            )));
        }
        let policy = self.policy(py, Policy::default_of_context(py))?;
        USED.store(true, Ordering::Relaxed);
        let token = variable(py)?.call_method1("set", (policy.names(),))?;
        self.token = Some(token.unbind());
        Ok(())
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&mut self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        match self.token.take() {
            Some(token) => variable(py)?.call_method1("reset", (token,)).map(drop),
            None => Ok(()),
        }
    }
}
