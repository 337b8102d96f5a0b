//! Casts of arguments by their framework's own operations, for arrays that are traced, recorded or held
//! by a variable.

use pyo3::prelude::*;

use super::{DtypeCast, Function, Policy, ops};
use crate::convert::plan::Why;
use crate::convert::record::Record;
use crate::convert::{self, Request, trace};
use crate::framework::detect::{self, Role};
use crate::framework::endpoints::Endpoints;
use crate::framework::loaded::LoadedFramework;
use crate::framework::spec::DType;
use crate::interpreter::error::Result;

/// Casts an array by operations of its own framework, so that a trace or a gradient goes on. The values
/// are those of any other cast, and so are its checks and its record. `None` if the array has the dtype.
///
/// # Errors
///
/// As [`convert_to`](convert::convert_to), and what the framework raises.
pub fn cast_in_graph<'py>(
    data: &Bound<'py, PyAny>,
    loaded: &LoadedFramework,
    request: &Request,
) -> Result<Option<Bound<'py, PyAny>>> {
    let (py, endpoints) = (data.py(), Endpoints::of(loaded.framework));
    let Some(to) = request.dtype else { return Ok(None) };
    let from = convert::dtype_of(py, loaded, data);
    if let Some(from) = from
        && convert::cast_of(endpoints, from, request)?.is_none()
    {
        return Ok(None);
    }
    let is_there = convert::dtypes(py, loaded, to)?.contains(to);
    if !is_there || loaded.framework.array.is_none() {
        return Err(convert::missing_dtype(py, endpoints, loaded, to));
    }
    if trace::copy_default(py, request.copy) == Some(false) {
        return Err(convert::copy_required(endpoints, request, Why::Cast));
    }
    let start = trace::start();
    let result = cast(data, loaded, from.unwrap_or(to), to)?;
    if let Some(start) = start {
        let record = Record::of_cast(loaded, &result, to, "the framework's cast");
        trace::push(py, record, start);
    }
    Ok(Some(result))
}

/// Casts what a variable holds, or the array itself. Integers are rounded to and clamped.
fn cast<'py>(
    data: &Bound<'py, PyAny>,
    loaded: &LoadedFramework,
    from: DType,
    to: DType,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, endpoints) = (data.py(), Endpoints::of(loaded.framework));
    let (policy, function) = (Policy::default(), Function { name: "", warned: None });
    let cast = DtypeCast { py, endpoints, loaded, from, to, policy, function };
    match detect::class_of(data).map(|class| class.role) {
        Some(Role::Value(op)) => ops::cast(&cast, &op.call(py, [loaded.module(py), data])?, None),
        _ => ops::cast(&cast, data, None),
    }
}
