//! The constraints on an array argument, beyond the type of its parameter.

use pyo3::prelude::*;

use super::RustCall;
use crate::framework::detect;
use crate::framework::endpoints::Endpoints;
use crate::framework::spec::Strides;
use crate::interpreter::error::{Error, Failure};
use arraybridge_tensor::memory::view::View;

/// Returns whether an array is in row-major order, without gaps.
pub(super) fn is_contiguous(view: &View) -> bool {
    view.layout() == Strides::Contiguous
}

#[cold]
pub(super) fn not_contiguous() -> Error {
    Error::Value("the array is not contiguous (in row-major order, without gaps)".into())
}

impl RustCall<'_, '_> {
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
