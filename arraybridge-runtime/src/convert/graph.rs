//! Casts by a framework's own operation, for arrays whose operations are traced or recorded.

use pyo3::prelude::*;

use super::plan::Why;
use super::record::Record;
use super::{Request, cast_of, dtype_of, dtypes, errors, trace};
use crate::framework::endpoints::Endpoints;
use crate::framework::loaded::LoadedFramework;
use crate::interpreter::error::Result;

/// Casts an array by an operation of its own framework, so that a trace or a gradient goes on. The cast
/// is checked, refused and recorded like any other. `None` if the array has the dtype.
///
/// # Errors
///
/// As [`convert_to`](super::convert_to), and what the framework raises.
pub fn cast_in_graph<'py>(
    data: &Bound<'py, PyAny>,
    loaded: &LoadedFramework,
    request: &Request,
) -> Result<Option<Bound<'py, PyAny>>> {
    let (py, endpoints) = (data.py(), Endpoints::of(loaded.framework));
    let Some(to) = request.dtype else { return Ok(None) };
    if let Some(from) = dtype_of(py, loaded, data)
        && cast_of(endpoints, from, request)?.is_none()
    {
        return Ok(None);
    }
    let is_there = dtypes(py, loaded, to)?.contains(to);
    let object = loaded.dtype_object(py, to).filter(|_| is_there);
    let (Some(ops), Some(object)) = (&loaded.framework.array, object) else {
        return Err(errors::missing_dtype(py, endpoints, loaded, to));
    };
    if trace::copy_default(py, request.copy) == Some(false) {
        return Err(errors::copy_required(endpoints, request, Why::Cast));
    }
    let start = trace::start();
    let xp = ops.namespace.call(py, [loaded.module(py)])?;
    let result = ops.astype.call(py, [loaded.module(py), &xp, data, &object])?;
    if let Some(start) = start {
        let record = Record::of_cast(loaded, &result, to, "the framework's cast");
        trace::push(py, record, start);
    }
    Ok(Some(result))
}
