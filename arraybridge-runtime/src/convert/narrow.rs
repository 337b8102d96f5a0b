//! Narrowing: an array whose dtype the target lacks gets the nearest one that the target has.

use pyo3::prelude::*;

use super::available::{dtypes, nearest};
use super::class::class_of;
use super::doors::convert_to;
use super::plan::Route;
use super::planned::convert_routed;
use super::request::Request;
use super::{errors, trace};
use crate::framework::detect;
use crate::framework::endpoints::Endpoints;
use crate::framework::loaded;
use crate::framework::spec::{DType, Framework};
use crate::interpreter::error::{Error, Result, warn};

/// Whose arrays may be narrowed, for the warning.
#[derive(Clone, Copy, Debug)]
pub struct Narrowing<'a> {
    /// The name of the function.
    pub function: &'a str,
}

impl Narrowing<'_> {
    /// Says that an array becomes narrower.
    ///
    /// # Errors
    ///
    /// The warning, if a filter makes it an exception.
    #[cold]
    pub fn warn(&self, py: Python<'_>, from: DType, to: DType, target: &Framework) -> Result<()> {
        let title = target.title;
        let hint = target.hint_for(from);
        let text = format!(
            "{}: {title} has no {from}, so {from} arrays become {to}. Cast them on purpose, or use \
             narrow=\"error\" to make this an error{hint}",
            self.function
        );
        Ok(warn(py, "NarrowedDtypeWarning", text)?)
    }
}

/// Does what [`convert_routed`] does. If the target lacks the array's dtype and `narrowing` allows
/// it, the array is narrowed.
///
/// # Errors
///
/// The errors of [`convert_routed`], and an error if a value does not fit. The warning, if a filter
/// makes it an exception.
pub fn convert_narrowed<'a, 'py>(
    data: &Bound<'py, PyAny>,
    target: &'static Framework,
    request: &Request,
    narrowing: impl FnOnce() -> Option<Narrowing<'a>>,
) -> Result<(Bound<'py, PyAny>, Route)> {
    match convert_routed(data, target, request) {
        Err(error) if error.is_missing_dtype() => match narrowing() {
            Some(narrowing) => narrow(data, target, request, narrowing, error),
            None => Err(error),
        },
        done => done,
    }
}

/// Converts an array whose dtype the target lacks, which `error` says.
#[cold]
pub(super) fn narrow<'py>(
    data: &Bound<'py, PyAny>,
    target: &'static Framework,
    request: &Request,
    narrowing: Narrowing<'_>,
    error: Error,
) -> Result<(Bound<'py, PyAny>, Route)> {
    let py = data.py();
    let is_strict = request.dtype.is_some() || trace::copy_default(py, request.copy) == Some(false);
    let source = class_of(data)?.framework;
    let loaded = loaded::load(py, source)?;
    let Some(from) = loaded.dtype(data).filter(|_| !is_strict) else { return Err(error) };
    let Some(to) = narrowed(py, from, target)? else { return Err(error) };
    let done =
        convert_routed(data, target, &Request { dtype: Some(to), is_narrowed: true, ..*request })?;
    narrowing.warn(py, from, to, target)?;
    Ok(done)
}

/// The nearest dtype of the same kind that a framework has; `None` if it has the dtype itself, or none.
///
/// # Errors
///
/// The errors of [`loaded::load`], and any exception that the framework raises when it is asked for
/// its dtypes.
pub fn narrowed(py: Python<'_>, from: DType, target: &'static Framework) -> Result<Option<DType>> {
    let loaded = loaded::load(py, target)?;
    let set = dtypes(loaded, from)?;
    Ok(if set.contains(from) { None } else { nearest(from, set) })
}

/// Converts an array that is labelled as one of `source`. If the target lacks its dtype and `narrowing`
/// allows it, the array is narrowed.
///
/// # Errors
///
/// The errors of `convert_to` and `convert_narrowed`, and an error if the label does not match the
/// object.
pub fn convert_labelled<'py>(
    data: &Bound<'py, PyAny>,
    source: &'static Framework,
    target: &'static Framework,
    request: &Request,
    narrowing: Option<Narrowing<'_>>,
) -> Result<Bound<'py, PyAny>> {
    let class = detect::class_of(data).ok_or_else(|| errors::not_an_array(data, target.name))?;
    if !class.framework.is(source) {
        return Err(errors::mislabelled(Endpoints { source, target }, class.framework, data));
    }
    match (convert_to(data, target, request), narrowing) {
        (Err(error), Some(narrowing)) if error.is_missing_dtype() => {
            narrow(data, target, request, narrowing, error).map(|(array, _)| array)
        }
        (done, _) => done,
    }
}
