//! The borrow flags of NumPy arrays that all extensions built with rust-numpy share.

use numpy::{
    BorrowError, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyReadwriteArrayDyn,
    PyUntypedArray,
};
use pyo3::prelude::*;

/// A raised flag, which is lowered when this is dropped. The element type has no meaning: a flag
/// belongs to memory.
pub(super) enum BorrowFlag<'py> {
    Shared(PyReadonlyArrayDyn<'py, u8>),
    Exclusive(PyReadwriteArrayDyn<'py, u8>),
}

impl<'py> BorrowFlag<'py> {
    /// Raises the flag of a NumPy array.
    pub(super) fn raise(
        array: &Bound<'py, PyUntypedArray>,
        exclusive: bool,
    ) -> Result<BorrowFlag<'py>, BorrowError> {
        // SAFETY: the object is a NumPy array, and nothing is read through the element type.
        let array = unsafe { array.cast_unchecked::<PyArrayDyn<u8>>() };
        Ok(match exclusive {
            true => BorrowFlag::Exclusive(array.try_readwrite()?),
            false => BorrowFlag::Shared(array.try_readonly()?),
        })
    }

    /// The array whose flag it is.
    pub(super) fn array(&self) -> &Bound<'py, PyUntypedArray> {
        match self {
            BorrowFlag::Shared(array) => array.as_untyped(),
            BorrowFlag::Exclusive(array) => array.as_untyped(),
        }
    }
}
