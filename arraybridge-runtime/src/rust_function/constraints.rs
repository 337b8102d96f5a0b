//! The constraints on an array argument, beyond the type of its parameter.

use ndarray::{ArrayViewMut, Dimension};
use pyo3::prelude::*;

use super::Call;
use super::argument::Argument;
use crate::framework::detect;
use crate::framework::endpoints::Endpoints;
use crate::framework::spec::Strides;
use crate::interpreter::error::{Error, Failure, Result};
use arraybridge_tensor::memory::element::Element;
use arraybridge_tensor::memory::view::View;

/// An array argument that can be asked to be contiguous, and to be no copy.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be asked to be contiguous or not to be a copy",
    note = "`ArrayView` and `ArrayViewMut` can"
)]
pub trait Constrained<'a>: Argument<'a> {
    /// Does what [`Argument::open`] does. An array that is not contiguous is copied with
    /// `CONTIGUOUS`, unless it has to be `SHARED`.
    ///
    /// # Errors
    ///
    /// The reason why the object cannot be such an argument.
    fn open_as<const CONTIGUOUS: bool, const SHARED: bool>(
        call: &Call<'_, '_>,
        index: usize,
    ) -> Result<Self::Holder>;
}

impl<'a, T: Element, D: Dimension> Constrained<'a> for ArrayViewMut<'a, T, D> {
    fn open_as<const CONTIGUOUS: bool, const SHARED: bool>(
        call: &Call<'_, '_>,
        index: usize,
    ) -> Result<Self::Holder> {
        let opened = Self::open(call, index)?;
        match CONTIGUOUS && !opened.array.is_standard_layout() {
            false => Ok(opened),
            true => Err(call.about(index, not_contiguous())),
        }
    }
}

impl<'a, A: Constrained<'a>> Constrained<'a> for Option<A> {
    fn open_as<const CONTIGUOUS: bool, const SHARED: bool>(
        call: &Call<'_, '_>,
        index: usize,
    ) -> Result<Option<A::Holder>> {
        match call.given(index) {
            Some(given) if !given.is_none() => {
                A::open_as::<CONTIGUOUS, SHARED>(call, index).map(Some)
            }
            _ => Ok(None),
        }
    }
}

/// Returns whether an array is in row-major order, without gaps.
pub(super) fn is_contiguous(view: &View) -> bool {
    view.layout() == Strides::Contiguous
}

#[cold]
pub(super) fn not_contiguous() -> Error {
    Error::Value("the array is not contiguous (in row-major order, without gaps)".into())
}

impl Call<'_, '_> {
    /// The error of an argument that may not be copied.
    #[cold]
    pub(super) fn copied(&self, given: &Bound<'_, PyAny>, why: &str) -> Error {
        let target = self.framework();
        let source = detect::class_of(given).map_or(target, |class| class.framework);
        let reason = format!("the function takes no copy, but {why}");
        Endpoints { source, target }.error(Failure::Copy, "open", reason)
    }

    /// The error of an array of another shape.
    #[cold]
    pub fn another_shape(&self, index: usize, shape: &[usize], wanted: &str) -> Error {
        self.about(index, Error::Value(format!("expected the shape {wanted}, not {shape:?}")))
    }
}
