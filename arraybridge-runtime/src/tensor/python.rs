//! Tensors of Python's arrays, and arrays of tensors.

use pyo3::prelude::*;

use super::{Tensor, class};
use crate::c_api;
use crate::convert::{self, Opened, Request};
use crate::dlpack::LEGACY_STREAM;
use crate::error::Result;
use crate::framework::generated::MemoryType;
use crate::framework::spec::Framework;
#[cfg(not(feature = "casts"))]
use crate::host::cast::table as casts;

/// Makes this module use the casts of the package, if there is an interpreter.
#[cfg(not(feature = "casts"))]
pub(super) fn join_package() {
    if !casts::is_joined() {
        Python::try_attach(c_api::join_if_present);
    }
}

impl Tensor {
    /// A tensor of an array's memory. Memory that DLPack cannot describe is copied.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`](crate::error::Error::Memory) if the allocation fails.
    pub(crate) fn from_opened(py: Python<'_>, opened: Opened) -> Result<Tensor> {
        // The memory is claimed while it is read, toward all modules.
        c_api::join_if_present(py);
        let view = opened.source.view();
        let readable = !view.is_on_host() || view.can_be_read();
        let opened = if readable { opened } else { convert::fresh(py, opened, None)? };
        Ok(opened.source.into())
    }

    /// A tensor of the memory of any framework's array, or of any object that exports it by DLPack. Only
    /// memory that DLPack cannot describe is copied. An array that requires a gradient is detached, with a
    /// `GradientDetachedWarning`.
    ///
    /// # Errors
    ///
    /// [`Error::Conversion`](crate::error::Error::Conversion) says why the object cannot be read.
    pub fn from_py(data: &Bound<'_, PyAny>) -> Result<Tensor> {
        let opened = convert::open_to_hold(data, LEGACY_STREAM)?;
        convert::warn_if_detached(data, MemoryType::Numpy.framework())?;
        Tensor::from_opened(data.py(), opened)
    }

    /// The tensor as an array of a framework.
    ///
    /// # Errors
    ///
    /// The errors of [`convert_to`](crate::convert::convert_to).
    pub(crate) fn into_framework<'py>(
        self,
        py: Python<'py>,
        target: &'static Framework,
        request: &Request,
    ) -> Result<Bound<'py, PyAny>> {
        if !self.description().is_on_host() {
            return convert::convert_to(&class::into_object(py, self)?, target, request);
        }
        let source = self.into_parts().0;
        let sole = source.owner().is_sole();
        let private = sole && !source.view().is_read_only();
        convert::deliver(py, Opened { source, private }, target, request)
    }
}
