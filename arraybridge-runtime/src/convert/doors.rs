//! The doors: conversions and their explanations, which the rooms above call. Arrays that are traced, recorded, wrapped
//! by a transformation or held by a variable are cast by their framework's own operations, all others by the plan.

use pyo3::prelude::*;

use super::available::{dtypes, missing_dtype};
use super::errors::{copy_required, unknown_dtype};
use super::own_cast::OwnCast;
use super::plan::Why;
use super::planned::{convert_by_plan, explain_by_plan};
use super::record::Record;
use super::request::{Cast, Request, cast_of};
use super::trace;
use crate::framework::detect::{self, Role};
use crate::framework::loaded::{self, Loaded};
use crate::framework::spec::{DType, Framework, Memory};
use crate::interpreter::error::{Error, Failure, Result};
use arraybridge_host::cast::Scaling;

/// Converts any framework's array to an array of `target`. One of the target's own is cast by the
/// framework's operations if it is traced, or wrapped by a transformation, or if a trace records operations
/// on ordinary arrays.
///
/// # Errors
///
/// [`Error::Conversion`] says which framework, why, and what to do.
#[inline]
pub fn convert_to<'py>(
    data: &Bound<'py, PyAny>,
    target: &'static Framework,
    request: &Request,
) -> Result<Bound<'py, PyAny>> {
    match request.cast {
        Cast::None => convert_by_plan(data, target, request),
        _ => cast_to(data, target, request),
    }
}

/// Does what [`convert_to`] does, with a dtype.
#[inline(never)]
fn cast_to<'py>(
    data: &Bound<'py, PyAny>,
    target: &'static Framework,
    request: &Request,
) -> Result<Bound<'py, PyAny>> {
    let by_operations = |loaded| {
        let cast = cast_in_graph(data, loaded, request)?;
        let left = after_cast(request, cast.is_some());
        match cast {
            Some(cast) if left.keeps_own_arrays() => Ok(cast),
            cast => convert_by_plan(cast.as_ref().unwrap_or(data), target, &left),
        }
    };
    let as_planned = || convert_by_plan(data, target, request);
    by_operations_or(by_operations, as_planned, data, target)
}

/// Describes what [`convert_to`] would do, without doing it.
pub fn explain(
    data: &Bound<'_, PyAny>,
    target: &'static Framework,
    request: &Request,
) -> Result<Record> {
    if request.cast == Cast::None {
        return explain_by_plan(data, target, request);
    }
    let by_operations = |loaded: Loaded<'_>| {
        let cast = wanted(data, loaded, request)?;
        let left = explain_by_plan(data, target, &after_cast(request, cast.is_some()))?;
        let Some((_, to)) = cast else { return Ok(left) };
        let cast = Record::of_cast(loaded, data, to, BY_FRAMEWORK);
        Ok(Record { device: left.device, ..cast })
    };
    let as_planned = || explain_by_plan(data, target, request);
    by_operations_or(by_operations, as_planned, data, target)
}

/// The result of the framework's operations for an array of its own that is to be cast, if they
/// have to make it, or else the result of the plan.
#[inline]
fn by_operations_or<'py, T>(
    by_operations: impl FnOnce(Loaded<'py>) -> Result<T>,
    as_planned: impl FnOnce() -> Result<T>,
    data: &Bound<'py, PyAny>,
    target: &'static Framework,
) -> Result<T> {
    // A host framework has no traces.
    if target.memory == Memory::Host {
        return as_planned();
    }
    let class = detect::class_of(data);
    let Some(class) = class.filter(|class| class.framework.is(target)) else {
        return as_planned();
    };
    let loaded = loaded::load(data.py(), target)?;
    let is_traced = match class.role {
        Role::Refused(why) => loaded.is_tracer(why),
        _ => loaded.is_tracing(),
    };
    if is_traced {
        return by_operations(loaded);
    }
    match as_planned() {
        Err(error) if is_lifted(&error, loaded, data) => by_operations(loaded),
        done => done,
    }
}

/// Returns whether an array was refused because a transformation wraps it.
#[cold]
fn is_lifted<'py>(error: &Error, loaded: Loaded<'py>, data: &Bound<'py, PyAny>) -> bool {
    let is_refused = matches!(error, Error::Conversion(why) if why.failure == Failure::Array);
    is_refused && loaded.is_lifted(data)
}

/// The rest of a request after the cast, which is a copy.
fn after_cast(request: &Request, is_cast: bool) -> Request {
    let copy = request.copy.filter(|copy| !copy || !is_cast);
    Request { cast: Cast::None, copy, ..*request }
}

/// The words of the record of such a cast.
const BY_FRAMEWORK: &str = "the framework's cast";

/// Casts an array by operations of its own framework, so that a trace or a gradient goes on. The values
/// are those of any other cast, and so are its checks and its record. `None` if the array has the dtype.
pub fn cast_in_graph<'py>(
    data: &Bound<'py, PyAny>,
    loaded: Loaded<'py>,
    request: &Request,
) -> Result<Option<Bound<'py, PyAny>>> {
    let Some((from, to)) = wanted(data, loaded, request)? else { return Ok(None) };
    let start = trace::start();
    let result = cast(data, loaded, from, to)?;
    if let Some(start) = start {
        trace::push(data.py(), Record::of_cast(loaded, &result, to, BY_FRAMEWORK), start);
    }
    Ok(Some(result))
}

/// The dtypes to cast from and to; `None` if the array has the dtype.
fn wanted(
    data: &Bound<'_, PyAny>,
    loaded: Loaded<'_>,
    request: &Request,
) -> Result<Option<(DType, DType)>> {
    let py = data.py();
    let Some(to) = request.cast.dtype() else { return Ok(None) };
    let from = loaded.dtype(data);
    let is_variable =
        || detect::class_of(data).is_some_and(|class| matches!(class.role, Role::Value(_)));
    match from {
        Some(from) if cast_of(loaded.framework, from, request)?.is_none() => {
            return Ok(None);
        }
        // Nobody knows to what its values would have to be clamped.
        None if !is_variable() => {
            return Err(unknown_dtype(loaded, data));
        }
        _ => {}
    }
    let is_there = dtypes(loaded, to)?.contains(to);
    if !is_there || loaded.framework.array.is_none() {
        return Err(missing_dtype(loaded, to));
    }
    if trace::copy_default(py, request.copy) == Some(false) {
        return Err(copy_required(loaded.framework, request, Why::Cast));
    }
    Ok(Some((from.unwrap_or(to), to)))
}

/// Casts what a variable holds, or the array itself. Integers are rounded to and clamped.
fn cast<'py>(
    data: &Bound<'py, PyAny>,
    loaded: Loaded<'py>,
    from: DType,
    to: DType,
) -> PyResult<Bound<'py, PyAny>> {
    let cast = OwnCast { loaded, from, to, scaling: Scaling::Clamp, bounds: None };
    match detect::class_of(data).map(|class| class.role) {
        Some(Role::Value(op)) => cast.apply(&op.call(loaded, [data])?, None),
        _ => cast.apply(data, None),
    }
}
