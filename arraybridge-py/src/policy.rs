//! Dtype policies, slices and cleanup for Python.

use arraybridge_declared::declared::names::framework;
use arraybridge_declared::policy::{self, Conversion, Lead, Narrow, Policy};
use arraybridge_host::cast::Scaling;
use arraybridge_runtime::convert::{self, Narrowing, Request, class_of};
use arraybridge_runtime::framework::endpoints::Endpoints;
use arraybridge_runtime::framework::spec::Framework;
use arraybridge_runtime::interpreter::error::Result;
use arraybridge_runtime::interpreter::panic::memory_errors;
use pyo3::prelude::*;

/// Stretch an array of floats to the range of an integer dtype.
///
/// Its finite minimum becomes the smallest integer, its finite maximum the largest. The value of a
/// constant array is rounded and clamped, and NaN becomes 0. If `dtype` is not an integer dtype, or
/// the array already has one, this is a plain cast, and integers saturate. `array` is of any shape;
/// an array of another framework than `memory_type` is converted first, as by `convert_memory`.
///
/// Raises `UnsupportedArrayError` if `array` is not an array. Raises `ValueError` for an unknown
/// dtype and for a cast from complex to real. Raises `UnsupportedDtypeError` if the framework lacks
/// the dtype.
///
/// >>> import numpy
/// >>> from arraybridge import SCALING_FUNCTIONS
/// >>> SCALING_FUNCTIONS["numpy"](numpy.array([0.0, 0.5, 2.0]), numpy.uint8)
/// array([  0,  64, 255], dtype=uint8)
#[pyfunction]
#[pyo3(signature = (array, dtype, *, memory_type))]
#[memory_errors]
fn stretch<'py>(
    array: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyAny>,
    memory_type: &Bound<'py, PyAny>,
) -> Result<Bound<'py, PyAny>> {
    let wanted = framework(memory_type)?;
    let array = of_framework(array, wanted)?;
    let conversion = Conversion::Force(policy::dtype_named(dtype)?);
    let name = format!("SCALING_FUNCTIONS[{:?}]", wanted.name);
    let policy = Policy { conversion, scaling: Scaling::Stretch, ..Policy::default() };
    policy::finish(&array, &Lead::default(), policy, &name)
}

/// Convert an array of another framework as `convert_memory` does.
fn of_framework<'py>(
    array: &Bound<'py, PyAny>,
    wanted: &'static Framework,
) -> Result<Bound<'py, PyAny>> {
    let source = class_of(array)?.framework;
    if source.memory_type == wanted.memory_type {
        return Ok(array.clone());
    }
    let allows = Policy::default_of_context(array.py()).narrow == Narrow::Warn;
    let narrowing = Narrowing { function: "SCALING_FUNCTIONS" };
    let request = Request::default();
    let endpoints = Endpoints { source, target: wanted };
    convert::convert_labelled(array, endpoints, &request, allows.then_some(narrowing))
}

#[doc = doc!("__init__.finish_dtype")]
#[pyfunction]
#[pyo3(signature = (
    result, lead, *, dtype_conversion=None, scaling=None, range=None, function="function"
))]
#[memory_errors]
fn finish_dtype<'py>(
    result: &Bound<'py, PyAny>,
    lead: &Bound<'py, PyAny>,
    dtype_conversion: Option<&Bound<'py, PyAny>>,
    scaling: Option<&Bound<'py, PyAny>>,
    range: Option<&Bound<'py, PyAny>>,
    function: &str,
) -> Result<Bound<'py, PyAny>> {
    let base = Policy::default_of_context(result.py());
    let mut policy = Policy::from_py(dtype_conversion, scaling, base)?;
    if let Some(range) = range {
        policy.range = Some(policy::range_named(range, scaling.map(|_| policy.scaling))?);
    }
    policy::finish(result, &Lead::of(lead), policy, function)
}

/// Adds the functions and classes of this file to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    policy::install(module)?;
    add_functions! { module; policy::_policy, policy::_new_axes_before, policy::_configure, stretch, finish_dtype }
    Ok(())
}
