//! The arrays that objects of no framework are like.

use crate::intern;
use pyo3::prelude::*;

use super::carry_out::convert_object;
use super::errors::copy_required;
use super::likeness::{Likeness, Seen, has_known_dtype, inside, likeness, see};
use super::plan::Why;
use super::request::Request;
use super::trace;
use crate::framework::detect;
use crate::framework::device;
use crate::framework::endpoints::Endpoints;
use crate::framework::generated::MemoryType;
use crate::framework::op::numpy;
use crate::framework::spec::Framework;
use crate::interpreter::error::{Result, attempt};
use crate::memory::numpy_array;

/// A scalar of NumPy as an array, if its dtype is known. Scalars are no arrays unless the caller says so.
#[cold]
pub fn scalar_as_array<'py>(data: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    let py = data.py();
    // No attribute of any other object is read.
    let module = data.get_type().module().ok()?;
    if module != "numpy" && module != "ml_dtypes" {
        return None;
    }
    let numpy = attempt(py, numpy(py))?;
    if !data.is_instance(&numpy.getattr(intern!(py, "generic")).ok()?).ok()? {
        return None;
    }
    let array = attempt(py, numpy.call_method1(intern!(py, "asarray"), (data,)))?;
    has_known_dtype(&array).then_some(array)
}

/// The array that an object of no framework is like: one of NumPy's, or, for memory on a device, one of
/// `target`. `None` if it is not like an array. `is_cast` is true if the array is then cast to a dtype that the caller
/// names.
///
/// # Errors
///
/// [`Failure::Array`](crate::interpreter::error::Failure::Array) for an object that has to be computed
/// first or does not hold numbers; [`Failure::Copy`](crate::interpreter::error::Failure::Copy) where `copy`, or a
/// scope around the call, forbids the copy that NumPy has to make.
#[cold]
pub fn seen_as_array<'py>(
    data: &Bound<'py, PyAny>,
    target: &'static Framework,
    copy: Option<bool>,
    is_cast: bool,
) -> Result<Option<Bound<'py, PyAny>>> {
    if let Some(array) = inside(data)? {
        return match detect::class_of(&array) {
            Some(_) => expect_shared(array, target, copy).map(Some),
            None => seen_as_array(&array, target, copy, is_cast),
        };
    }
    match likeness(data) {
        Likeness::None | Likeness::Scalar | Likeness::Instance => Ok(None),
        Likeness::Exporter { is_seen } => {
            let place = device::dlpack_device(data);
            // An object that does not say where it is may refuse to export.
            let is_on_host = place.map_or(is_seen, device::is_host);
            let framework = if is_on_host { MemoryType::Numpy.framework() } else { target };
            let request = Request { copy: copy.filter(|copy| !copy), ..Request::default() };
            convert_object(data, framework, &request).map(Some)
        }
        Likeness::Lazy | Likeness::Seen | Likeness::Buffer | Likeness::Wrapper => {
            let Seen { array, made } = see(data, target, is_cast)?;
            if made {
                refuse_copy(&array, target, copy)?
            }
            Ok(Some(array))
        }
    }
}

/// The array that was inside an object, unless it was made just now and `copy` forbids that.
///
/// # Errors
///
/// [`Failure::Copy`](crate::interpreter::error::Failure::Copy).
pub(super) fn expect_shared<'py>(
    array: Bound<'py, PyAny>,
    target: &'static Framework,
    copy: Option<bool>,
) -> Result<Bound<'py, PyAny>> {
    // One that was in the object has another owner.
    if numpy_array::array(&array).is_some_and(numpy_array::is_unique_owner) {
        refuse_copy(&array, target, copy)?;
    }
    Ok(array)
}

fn refuse_copy(
    array: &Bound<'_, PyAny>,
    target: &'static Framework,
    copy: Option<bool>,
) -> Result<()> {
    if trace::copy_default(array.py(), copy) == Some(false) {
        let endpoints = Endpoints { source: MemoryType::Numpy.framework(), target };
        let request = Request { copy, ..Request::default() };
        return Err(endpoints.name_in(copy_required(target, &request, Why::Seen)));
    }
    Ok(())
}

/// An array as it is, and the one that an object of no framework is like.
///
/// # Errors
///
/// [`Failure::Array`](crate::interpreter::error::Failure::Array) for an object that is like an array and
/// has to be computed first or does not hold numbers.
pub fn as_array<'py>(
    data: &Bound<'py, PyAny>,
    target: &'static Framework,
) -> Result<Bound<'py, PyAny>> {
    let seen = match detect::class_of(data) {
        Some(_) => None,
        None => seen_as_array(data, target, None, false)?,
    };
    Ok(seen.unwrap_or_else(|| data.clone()))
}
