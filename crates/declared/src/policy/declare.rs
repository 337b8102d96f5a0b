//! Policies as users write them: the arguments of a call, and the context's default.

use arraybridge_runtime::interpreter::package;
use arraybridge_runtime::interpreter::panic::memory_errors;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple, PyType};

use super::{Conversion, Narrow, Policy, Range, configured};
use arraybridge_host::cast::Scaling;
use arraybridge_runtime::convert::trace;
use arraybridge_runtime::framework::loaded;
use arraybridge_runtime::framework::spec::DType;
use arraybridge_runtime::interpreter::context::ContextVariable;
use arraybridge_runtime::interpreter::error::{Error, Result, attempt, shown};
use arraybridge_runtime::interpreter::park;
use arraybridge_runtime::memory::numpy_array;

const DEFAULT: &str = "default";
const PRESERVE: &str = "preserve";
const NATIVE: &str = "native";

const SCALINGS: [(&str, Scaling); 3] =
    [("clamp", Scaling::Clamp), ("unit", Scaling::Unit), ("stretch", Scaling::Stretch)];

const NARROWS: [(&str, Narrow); 2] = [("warn", Narrow::Warn), ("error", Narrow::Error)];

impl Policy {
    /// Reads the arguments `dtype_conversion` and `scaling`. Where one is missing or `None`, that part
    /// of `base` is used. A range belongs to its scaling.
    ///
    /// A conversion is one of the strings `"default"`, `"preserve"` and `"native"`, in either case, a dtype's name
    /// or a framework's dtype object. A member of an enum counts as its value, an object with an
    /// attribute `default_dtype_conversion` as that attribute. Such an object comes from the original package, and
    /// stretches floats that become integers, as it does there, unless another scaling is asked for.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] for anything else.
    pub fn from_py(
        dtype_conversion: Option<&Bound<'_, PyAny>>,
        scaling: Option<&Bound<'_, PyAny>>,
        base: Policy,
    ) -> Result<Policy> {
        let given = dtype_conversion.filter(|object| !object.is_none());
        let conversion = given.map_or(Ok(base.conversion), conversion)?;
        let stretches = || base.scaling == Scaling::Clamp && given.is_some_and(is_config);
        let (scaling, range) = match scaling.filter(|object| !object.is_none()) {
            Some(object) => (scaling_named(object)?, None),
            None if stretches() => (Scaling::Stretch, None),
            None => (base.scaling, base.range),
        };
        Ok(Policy { conversion, scaling, range, narrow: base.narrow })
    }

    /// The default of the current context: that of the innermost `dtype_policy` block, or that of the
    /// process outside of all blocks.
    pub fn default_of_context(py: Python<'_>) -> Policy {
        if OWNER.load(Ordering::Relaxed) && !USED.load(Ordering::Relaxed) {
            return configured::policy();
        }
        let read = || -> Result<Policy> {
            let value = variable(py)?.call_method0(arraybridge_runtime::intern!(py, "get"))?;
            let Ok(parts) = value.cast::<PyTuple>() else { return Ok(configured::policy()) };
            let (conversion, scaling) = (parts.get_item(0)?, parts.get_item(1)?);
            let policy = Policy::from_py(Some(&conversion), Some(&scaling), Policy::default())?;
            let narrow = narrow_named(&parts.get_item(2)?)?;
            let range: Option<(i64, i64)> = parts.get_item(3)?.extract()?;
            let range = range.map(|(low, high)| Range { low, high });
            Ok(Policy { narrow, range, ..policy })
        };
        read().unwrap_or_else(|_| configured::policy())
    }

    /// The names of the parts, which is what the context variable holds.
    pub fn names(self) -> (&'static str, &'static str, &'static str) {
        let conversion = match self.conversion {
            Conversion::Default => DEFAULT,
            Conversion::PreserveInput => PRESERVE,
            Conversion::NativeOutput => NATIVE,
            Conversion::Force(dtype) => dtype.name(),
        };
        let scaling = SCALINGS.iter().find(|(_, scaling)| *scaling == self.scaling);
        let narrow = NARROWS.iter().find(|(_, narrow)| *narrow == self.narrow);
        let scaling = scaling.map_or("clamp", |(name, _)| name);
        (conversion, scaling, narrow.map_or("warn", |(name, _)| name))
    }
}

/// Returns whether an object is a value of the original package's `dtype_config`, whose conversions stretch floats.
fn is_config(object: &Bound<'_, PyAny>) -> bool {
    !object.is_instance_of::<PyString>()
        && object
            .hasattr(arraybridge_runtime::intern!(object.py(), "default_dtype_conversion"))
            .unwrap_or(false)
}

fn conversion(object: &Bound<'_, PyAny>) -> Result<Conversion> {
    let mut value = enum_value(object);
    if !value.is_instance_of::<PyString>()
        && let Ok(config) = value.getattr("default_dtype_conversion")
    {
        // The original converts nothing then.
        if config.is_none() {
            return Ok(Conversion::NativeOutput);
        }
        value = enum_value(&config);
    }
    let name = value.cast::<PyString>().ok().map(|name| last_part(name).to_lowercase());
    match name.as_deref() {
        Some(DEFAULT) => Ok(Conversion::Default),
        Some(PRESERVE | "preserve_input") => Ok(Conversion::PreserveInput),
        Some(NATIVE | "native_output") => Ok(Conversion::NativeOutput),
        name => {
            let named = name.and_then(DType::from_name);
            let dtype = named.map_or_else(|| dtype_of(object, &value), |dtype| Ok(Some(dtype)))?;
            dtype.map(Conversion::Force).ok_or_else(|| unknown_conversion(object))
        }
    }
}

#[cold]
fn unknown_conversion(object: &Bound<'_, PyAny>) -> Error {
    let names: Vec<_> = DType::ALL.iter().map(|dtype| dtype.name()).collect();
    let text = shown(object);
    Error::Value(format!(
        "unknown dtype_conversion {text}; use DtypeConversion, {DEFAULT:?}, {PRESERVE:?}, {NATIVE:?} or a dtype: {}",
        names.join(", ")
    ))
}

/// The value of an enum's member, of whatever enum; other objects as they are.
fn enum_value<'py>(object: &Bound<'py, PyAny>) -> Bound<'py, PyAny> {
    if object.is_instance_of::<PyString>()
        && object.get_type().is(object.py().get_type::<PyString>())
    {
        return object.clone();
    }
    park::rather_than_end(object.py());
    object
        .getattr(arraybridge_runtime::intern!(object.py(), "value"))
        .unwrap_or_else(|_| object.clone())
}

/// `"uint16"` of `"torch.uint16"`.
fn last_part(name: &Bound<'_, PyString>) -> String {
    let name = name.to_string_lossy();
    name.rsplit('.').next().unwrap_or_default().to_owned()
}

/// The dtype that an object stands for, and the value that it has if it is a member of an enum.
fn dtype_of(object: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> Result<Option<DType>> {
    if let Ok(name) = value.cast::<PyString>() {
        return Ok(DType::from_name(&last_part(name)).or_else(|| named_by_numpy(value)));
    }
    // A framework's own dtype objects may be members of an enum too.
    for object in [object, value] {
        if let Some(dtype) = numpy_array::named_by(object) {
            return Ok(Some(dtype));
        }
        if let Some(dtype) = loaded::dtype_object_of_any(object.py(), object)? {
            return Ok(Some(dtype));
        }
    }
    Ok(named_by_numpy(value))
}

/// The dtype that a string, a type or a dtype of another byte order means to NumPy: `"f4"`, `"float"`,
/// `float`.
#[cold]
fn named_by_numpy(object: &Bound<'_, PyAny>) -> Option<DType> {
    let known = object.is_instance_of::<PyString>()
        || object.is_instance_of::<PyType>()
        || numpy_array::descr_of(object).is_some();
    if !known {
        return None;
    }
    let py = object.py();
    let read = || py.import("numpy")?.call_method1("dtype", (object,))?.getattr("name")?.extract();
    DType::from_name(&attempt::<String>(py, read())?)
}

/// The dtype that a name or any framework's dtype object stands for: `"uint16"`, `"u2"`,
/// `numpy.uint16`, `numpy.dtype("uint16")`, `torch.uint16`, `tf.uint16`, `DtypeConversion.UINT16`,
/// `float`.
///
/// # Errors
///
/// [`Error::Value`] for anything else.
pub fn dtype_named(object: &Bound<'_, PyAny>) -> Result<DType> {
    dtype_of(object, &enum_value(object))?.ok_or_else(|| {
        let known: Vec<_> = DType::ALL.iter().map(|dtype| dtype.name()).collect();
        let text = shown(object);
        Error::Value(format!("unknown dtype {text}; known are {}", known.join(", ")))
    })
}

/// Reads the argument `range`, which needs a scaling beside it.
///
/// # Errors
///
/// [`Error::Value`] for anything but two integers in order, and without `"unit"` or `"stretch"`.
pub fn range_named(object: &Bound<'_, PyAny>, scaling: Option<Scaling>) -> Result<Range> {
    let ends: Option<(i64, i64)> = attempt(object.py(), object.extract());
    let Some((low, high)) = ends.filter(|(low, high)| low < high) else {
        let text = shown(object);
        return Err(Error::Value(format!(
            "range must be two integers, the smaller one first, such as (0, 4095), not {text}"
        )));
    };
    match scaling {
        Some(Scaling::Unit | Scaling::Stretch) => Ok(Range { low, high }),
        _ => {
            let text = "range says to which integers scaling=\"unit\" or \"stretch\" scales; give one of them with it";
            Err(Error::Value(text.to_owned()))
        }
    }
}

fn scaling_named(object: &Bound<'_, PyAny>) -> Result<Scaling> {
    let value = enum_value(object);
    let name = value.cast::<PyString>().ok().map(|name| name.to_string().to_lowercase());
    named(name, &SCALINGS).ok_or_else(|| {
        let text = shown(object);
        Error::Value(format!("unknown scaling {text}; use \"clamp\", \"unit\" or \"stretch\""))
    })
}

/// The value that a name of a list stands for.
fn named<T: Copy>(name: Option<String>, known: &[(&str, T)]) -> Option<T> {
    let name = name?;
    known.iter().find(|(known, _)| *known == name).map(|(_, found)| *found)
}

/// Reads the argument `narrow`.
///
/// # Errors
///
/// [`Error::Value`] for anything but `"warn"` and `"error"`.
pub fn narrow_named(object: &Bound<'_, PyAny>) -> Result<Narrow> {
    let name = object.cast::<PyString>().ok().map(|name| name.to_string());
    named(name, &NARROWS).ok_or_else(|| {
        let text = shown(object);
        Error::Value(format!("unknown narrow {text}; use \"warn\" or \"error\""))
    })
}

/// True if only this module sets the context variable, so that [`USED`] says whether it is set.
static OWNER: AtomicBool = AtomicBool::new(false);

/// True if a `dtype_policy` block was ever opened.
static USED: AtomicBool = AtomicBool::new(false);

/// The names of the context's conversion and scaling, `None` outside of every `dtype_policy` block.
static VARIABLE: ContextVariable = ContextVariable::new("arraybridge.dtype_policy");

/// The attribute of the package's module that holds the variable.
const ATTRIBUTE: &str = "_dtype_policy";

/// Puts the context variable into the package's module, where other extension modules find it.
pub fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let variable = VARIABLE.get(module.py())?;
    OWNER.store(true, Ordering::Relaxed);
    module.add(ATTRIBUTE, variable)
}

fn variable(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    // A program that embeds Python without the package has a variable of its own.
    VARIABLE.get_or_adopt(py, || package::core(py)?.getattr(ATTRIBUTE))
}

/// The names of a policy's parts, and its range.
type PolicyNames = (&'static str, &'static str, &'static str, Option<(i64, i64)>);

/// Returns the parts of a policy, which the context variable holds. What is not given is that of the context in a block
/// that is being opened, and otherwise that of the package.
///
/// # Errors
///
/// [`Error::Value`] for an unknown name.
#[pyfunction]
#[memory_errors]
pub fn _policy(
    py: Python<'_>,
    dtype_conversion: Option<&Bound<'_, PyAny>>,
    scaling: Option<&Bound<'_, PyAny>>,
    narrow: Option<&Bound<'_, PyAny>>,
    range: Option<&Bound<'_, PyAny>>,
    is_opened: bool,
) -> Result<PolicyNames> {
    let base = match is_opened {
        true => Policy::default_of_context(py),
        false => Policy::default(),
    };
    let mut policy = Policy::from_py(dtype_conversion, scaling, base)?;
    if let Some(range) = range {
        policy.range = Some(range_named(range, scaling.map(|_| policy.scaling))?);
    }
    policy.narrow = narrow.map(narrow_named).transpose()?.unwrap_or(policy.narrow);
    USED.fetch_or(is_opened, Ordering::Relaxed);
    let (conversion, scaling, narrow) = policy.names();
    Ok((conversion, scaling, narrow, policy.range.map(|Range { low, high }| (low, high))))
}

/// Sets what is given of the policy of the process, and of `copy`. Returns both as they were before.
///
/// # Errors
///
/// [`Error::Value`] for an unknown name. Nothing is set then.
#[pyfunction]
#[memory_errors]
pub fn _configure(
    dtype_conversion: Option<&Bound<'_, PyAny>>,
    scaling: Option<&Bound<'_, PyAny>>,
    narrow: Option<&Bound<'_, PyAny>>,
    copy: Option<(Option<bool>,)>,
) -> Result<(&'static str, &'static str, &'static str, Option<bool>)> {
    let (before, copies) = (configured::policy(), trace::set_by_configure());
    let policy = Policy::from_py(dtype_conversion, scaling, before)?;
    let is_given = [dtype_conversion, scaling, narrow].iter().any(Option::is_some);
    let narrow = narrow.map(narrow_named).transpose()?.unwrap_or(policy.narrow);
    if let Some((copy,)) = copy {
        trace::set_copy(copy);
    }
    if is_given {
        configured::set_policy(Policy { narrow, ..policy });
    }
    let (conversion, scaling, narrow) = before.names();
    Ok((conversion, scaling, narrow, copies))
}
