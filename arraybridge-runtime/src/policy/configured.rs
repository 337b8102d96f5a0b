//! The policy of the process, below those of blocks, declarations and calls.

use std::env;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString};

use super::Policy;
use super::declare::narrow_named;
use crate::convert::trace;
use crate::interpreter::error::{Error, Result, shown};

/// True if the policy of the process was ever set.
static IS_SET: AtomicBool = AtomicBool::new(false);

static POLICY: Mutex<Option<Policy>> = Mutex::new(None);

/// The policy of the process.
#[inline]
pub(super) fn policy() -> Policy {
    match IS_SET.load(Ordering::Relaxed) {
        true => POLICY.lock().unwrap_or_else(PoisonError::into_inner).unwrap_or_default(),
        false => Policy::default(),
    }
}

/// The settings, each with the environment variable that it is read from when the package is imported.
const VARIABLES: [(&str, &str); 4] = [
    ("dtype_conversion", "ARRAYBRIDGE_DTYPE_CONVERSION"),
    ("scaling", "ARRAYBRIDGE_SCALING"),
    ("narrow", "ARRAYBRIDGE_NARROW"),
    ("copy", "ARRAYBRIDGE_COPY"),
];

/// Takes the settings from the environment.
///
/// # Errors
///
/// `ValueError`, with the name of the variable.
pub(super) fn read_environment(py: Python<'_>) -> PyResult<()> {
    for (name, variable) in VARIABLES {
        let Some(text) = env::var(variable).ok().filter(|text| !text.is_empty()) else { continue };
        let value = PyString::new(py, &text).into_any();
        let given = |wanted: &str| (wanted == name).then_some(&value);
        let [conversion, scaling, narrow, copy] = VARIABLES.map(|(name, _)| given(name));
        set(conversion, scaling, narrow, copy).map_err(|error| {
            let why = PyErr::from(error).value(py).to_string();
            PyValueError::new_err(format!("the environment variable {variable}: {why}"))
        })?;
    }
    Ok(())
}

fn set(
    conversion: Option<&Bound<'_, PyAny>>,
    scaling: Option<&Bound<'_, PyAny>>,
    narrow: Option<&Bound<'_, PyAny>>,
    copy: Option<&Bound<'_, PyAny>>,
) -> Result<()> {
    let policy = Policy::from_py(conversion, scaling, policy())?;
    let narrow = narrow.map(narrow_named).transpose()?.unwrap_or(policy.narrow);
    // All are read before one is set.
    if let Some(copy) = copy.map(copy_named).transpose()? {
        trace::set_copy(copy);
    }
    *POLICY.lock().unwrap_or_else(PoisonError::into_inner) = Some(Policy { narrow, ..policy });
    IS_SET.store(true, Ordering::Relaxed);
    Ok(())
}

fn copy_named(object: &Bound<'_, PyAny>) -> Result<Option<bool>> {
    if let Ok(copy) = object.cast::<PyBool>() {
        return Ok(Some(copy.is_true()));
    }
    let name = object.cast::<PyString>().ok().map(|name| name.to_string().to_lowercase());
    match name.as_deref() {
        Some("auto") => Ok(None),
        Some("true" | "1") => Ok(Some(true)),
        Some("false" | "0") => Ok(Some(false)),
        _ => {
            let text = shown(object);
            Err(Error::Value(format!("unknown copy {text}; use \"auto\", True or False")))
        }
    }
}

/// Set the defaults of the whole process, and return those before as a dict.
///
/// Threads and the workers of thread pools see them, unlike a `dtype_policy` block. A block, a
/// declaration and a call go before them. An argument that is left out changes nothing, so that
/// `configure()` returns what is set, and `configure(**before)` restores it.
///
/// Parameters
/// ----------
/// dtype_conversion, scaling, narrow : optional
///     As in `dtype_policy`.
/// copy : {"auto", True, False}, optional
///     The argument `copy` of conversions that have none of their own: "auto" shares memory where
///     it can, True always copies, and False shares or raises, as in a `no_copy` block.
///
/// Returns
/// -------
/// dict
///     The four settings as they were before.
///
/// Raises
/// ------
/// ValueError
///     If a name is unknown. Nothing is set then.
///
/// Notes
/// -----
/// When the package is imported, the defaults are read from ARRAYBRIDGE_DTYPE_CONVERSION,
/// ARRAYBRIDGE_SCALING, ARRAYBRIDGE_NARROW and ARRAYBRIDGE_COPY. Processes that a pool starts read
/// them too; other settings reach them by the initializer of the pool.
///
/// Examples
/// --------
/// >>> import arraybridge
/// >>> before = arraybridge.configure(dtype_conversion="native")
/// >>> arraybridge.configure(**before)["dtype_conversion"]
/// 'native'
#[pyfunction]
#[pyo3(signature = (*, dtype_conversion=None, scaling=None, narrow=None, copy=None))]
pub fn configure<'py>(
    py: Python<'py>,
    dtype_conversion: Option<&Bound<'py, PyAny>>,
    scaling: Option<&Bound<'py, PyAny>>,
    narrow: Option<&Bound<'py, PyAny>>,
    copy: Option<&Bound<'py, PyAny>>,
) -> Result<Bound<'py, PyDict>> {
    let before = PyDict::new(py);
    let (conversion_name, scaling_name, narrow_name) = policy().names();
    before.set_item("dtype_conversion", conversion_name)?;
    before.set_item("scaling", scaling_name)?;
    before.set_item("narrow", narrow_name)?;
    match trace::set_by_configure() {
        Some(copy) => before.set_item("copy", copy)?,
        None => before.set_item("copy", "auto")?,
    }
    if [dtype_conversion, scaling, narrow, copy].iter().any(Option::is_some) {
        set(dtype_conversion, scaling, narrow, copy)?;
    }
    Ok(before)
}
