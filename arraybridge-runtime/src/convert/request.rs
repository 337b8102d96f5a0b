//! The caller's request for a conversion.

use pyo3::prelude::*;

use super::plan::{Why, Wish};
use super::trace;
use crate::framework::detect::Class;
use crate::framework::device::Placement;
use crate::framework::loaded::Loaded;
use crate::framework::spec::{DType, Framework, Kind};
use crate::interpreter::error::{Failure, Result};
use arraybridge_host::cast::CastError;

/// The caller's request for a conversion, apart from the target.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request {
    /// The place where the result should be.
    pub placement: Placement,
    /// `Some(false)`: share or fail. `Some(true)`: fresh memory. `None`: share where possible.
    pub copy: Option<bool>,
    /// The cast that is asked for.
    pub cast: Cast,
    /// True if memory of an immutable array is copied unless `copy` forbids it, for a caller that
    /// hands the result to somebody who may write to it.
    pub for_writing: bool,
}

/// A cast that is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cast {
    /// None.
    #[default]
    None,
    /// A cast to a dtype. Values that it does not have are clipped.
    To(DType),
    /// A cast to the nearest dtype that the target has, so that every value has to fit.
    Narrow(DType),
}

impl Cast {
    /// The dtype of the result, if it is cast.
    #[inline]
    pub fn dtype(self) -> Option<DType> {
        match self {
            Cast::None => None,
            Cast::To(dtype) | Cast::Narrow(dtype) => Some(dtype),
        }
    }

    /// Returns whether every value has to fit.
    pub(super) fn is_narrowing(self) -> bool {
        matches!(self, Cast::Narrow(_))
    }
}

impl From<Option<DType>> for Cast {
    fn from(dtype: Option<DType>) -> Cast {
        dtype.map_or(Cast::None, Cast::To)
    }
}

impl Request {
    /// Returns whether nothing is asked for, so that an array of the target's framework stays as it
    /// is.
    #[inline]
    pub fn keeps_own_arrays(&self) -> bool {
        self.placement == Placement::Auto && self.copy != Some(true) && self.cast == Cast::None
    }

    /// Returns whether nothing is asked for, by the caller or by the context.
    #[inline]
    pub(super) fn is_empty(&self, py: Python<'_>) -> bool {
        self.keeps_own_arrays() && !self.for_writing && trace::copy_default(py, self.copy).is_none()
    }

    /// The wish for an array of a dtype, in a context that may forbid copies.
    #[inline]
    pub(super) fn wish(&self, target: Loaded<'_>, from: DType) -> Result<Wish> {
        let cast = cast_of(target.framework, from, self)?;
        Ok(Wish { cast, ..self.wish_to_copy(target.py()) })
    }

    /// The wish for an array, apart from the dtype.
    #[inline]
    pub(super) fn wish_to_copy(&self, py: Python<'_>) -> Wish {
        let (copy, requested) = match trace::copy_default(py, self.copy) {
            None | Some(true) if self.for_writing => (Some(true), Why::Immutable),
            copy => (copy, Why::Requested),
        };
        Wish { copy, requested, cast: None, recorded: false }
    }
}

/// An array, and what is asked of it.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a, 'py> {
    pub data: &'a Bound<'py, PyAny>,
    pub class: &'a Class,
    pub request: &'a Request,
}

/// The element type to cast to, where that is another one.
///
/// # Errors
///
/// [`Failure::Dtype`] where the imaginary part would be lost.
// A call here cost every conversion 20 to 80 ns.
#[inline(always)]
pub fn cast_of(target: &Framework, from: DType, request: &Request) -> Result<Option<DType>> {
    match request.cast.dtype() {
        Some(to) if to != from => castable(target, from, to).map(|()| Some(to)),
        _ => Ok(None),
    }
}

#[inline(never)]
fn castable(target: &Framework, from: DType, to: DType) -> Result<()> {
    if from.kind() == Kind::Complex && !matches!(to.kind(), Kind::Complex | Kind::Bool) {
        let reason = CastError::Complex { from, to }.to_string();
        return Err(target.error(Failure::Dtype, "cast", reason));
    }
    Ok(())
}
