//! Narrowing: an array whose dtype the target lacks gets the nearest one that the target has.

use pyo3::prelude::*;

use super::available::{dtypes, nearest};
use super::doors::convert_to;
use super::pair::class_of;
use super::plan::Route;
use super::planned::convert_routed;
use super::request::{Cast, Request};
use super::{errors, trace};
use crate::framework::detect;
use crate::framework::endpoints::Endpoints;
use crate::framework::loaded::{self, Loaded};
use crate::framework::spec::{DType, Framework};
use crate::interpreter::error::{Result, warn_often};

/// Whose arrays may be narrowed, for the warning.
#[derive(Clone, Copy, Debug)]
pub struct Narrowing<'a> {
    /// The name of the function.
    pub function: &'a str,
}

impl Narrowing<'_> {
    /// Says that an array becomes narrower.
    pub fn warn(&self, target: Loaded<'_>, from: DType, to: DType) -> Result<()> {
        let Framework { title, .. } = target.framework;
        let hint = target.framework.hint_for(from);
        let text = || {
            format!(
                "{}: {title} has no {from}, so {from} arrays become {to}. Cast them on purpose, or use \
                 narrow=\"error\" to make this an error{hint}",
                self.function
            )
        };
        let key = (self.function.as_ptr() as u64) ^ (from as u64) << 56 ^ (to as u64) << 48;
        Ok(warn_often(target.py(), "NarrowedDtypeWarning", key, text)?)
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
            Some(narrowing) => narrow(data, target, request, narrowing)?.ok_or(error),
            None => Err(error),
        },
        done => done,
    }
}

/// Converts an array whose dtype the target lacks; `None` if it has no other for it, or may not be narrowed.
#[cold]
fn narrow<'py>(
    data: &Bound<'py, PyAny>,
    target: &'static Framework,
    request: &Request,
    narrowing: Narrowing<'_>,
) -> Result<Option<(Bound<'py, PyAny>, Route)>> {
    let py = data.py();
    let is_strict =
        request.cast != Cast::None || trace::copy_default(py, request.copy) == Some(false);
    let source = class_of(data)?.framework;
    let loaded = loaded::load(py, source)?;
    let Some(from) = loaded.dtype(data).filter(|_| !is_strict) else { return Ok(None) };
    let Some(to) = narrowed(py, from, target)? else { return Ok(None) };
    let done = convert_routed(data, target, &Request { cast: Cast::Narrow(to), ..*request })?;
    narrowing.warn(loaded::load(py, target)?, from, to)?;
    Ok(Some(done))
}

/// The nearest dtype of the same kind that a framework has; `None` if it has the dtype itself, or none.
pub fn narrowed(py: Python<'_>, from: DType, target: &'static Framework) -> Result<Option<DType>> {
    let loaded = loaded::load(py, target)?;
    let set = dtypes(loaded, from)?;
    Ok(if set.contains(from) { None } else { nearest(from, set) })
}

/// Converts an array that is labelled as one of the source. If the target lacks its dtype and `narrowing`
/// allows it, the array is narrowed.
///
/// # Errors
///
/// The errors of `convert_to` and `convert_narrowed`, and an error if the label does not match the
/// object.
pub fn convert_labelled<'py>(
    data: &Bound<'py, PyAny>,
    endpoints: Endpoints,
    request: &Request,
    narrowing: Option<Narrowing<'_>>,
) -> Result<Bound<'py, PyAny>> {
    let Endpoints { source, target } = endpoints;
    let class = detect::class_of(data).ok_or_else(|| errors::not_an_array(data, target.name))?;
    if !class.framework.is(source) {
        return Err(errors::mislabelled(endpoints, class.framework, data));
    }
    match (convert_to(data, target, request), narrowing) {
        (Err(error), Some(narrowing)) if error.is_missing_dtype() => {
            narrow(data, target, request, narrowing)?.map(|(array, _)| array).ok_or(error)
        }
        (done, _) => done,
    }
}
