//! The borrow flags of NumPy arrays that all extensions built with rust-numpy share, where another extension
//! was the first to publish them. Where the package was, they are claims.

use crate::interpreter::once::Once;
use crate::interpreter::package;
use numpy::{
    BorrowError, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyReadwriteArrayDyn,
    PyUntypedArray, PyUntypedArrayMethods,
};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;

use crate::memory::numpy_array;
use arraybridge_tensor::memory::view::View;

/// True if rust-numpy checks its borrows with the claims of the package.
static ARE_CLAIMS: PyOnceLock<bool> = PyOnceLock::new();

/// Returns whether the flags are claims; `None` if nobody has asked yet.
#[inline]
pub(super) fn are_claims_known(py: Python<'_>) -> Option<bool> {
    ARE_CLAIMS.get(py).copied()
}

/// Makes the flags claims if nobody has published others, and returns whether they are.
#[cold]
pub(super) fn are_claims(py: Python<'_>) -> PyResult<bool> {
    let publish = || package::core(py)?.call_method0("_publish_borrows")?.extract();
    ARE_CLAIMS.try_once(py, publish).copied()
}

/// A raised flag, which is lowered when this is dropped. The element type has no meaning: a flag
/// belongs to memory.
pub(super) struct BorrowFlag<'py> {
    flag: Flag<'py>,
    /// True if the flag is that of an array of one axis, which has the only element of the one that
    /// was named.
    is_of_element: bool,
}

enum Flag<'py> {
    Shared(PyReadonlyArrayDyn<'py, u8>),
    Exclusive(PyReadwriteArrayDyn<'py, u8>),
}

impl<'py> BorrowFlag<'py> {
    /// Raises the flag of a NumPy array.
    ///
    /// # Errors
    ///
    /// Any exception that NumPy raises; inside, an error if the memory is borrowed.
    pub(super) fn raise(
        array: &Bound<'py, PyUntypedArray>,
        exclusive: bool,
    ) -> PyResult<Result<BorrowFlag<'py>, BorrowError>> {
        // rust-numpy takes an array without axes for empty, and divides by the common divisor of all strides.
        let is_of_element = array.strides().iter().all(|stride| *stride == 0);
        let element;
        let array = match is_of_element {
            false => array,
            true => {
                element = only_element(array)?;
                &element
            }
        };
        // SAFETY: the object is a NumPy array, and nothing is read through the element type.
        let array = unsafe { array.cast_unchecked::<PyArrayDyn<u8>>() };
        let flag = match exclusive {
            true => array.try_readwrite().map(Flag::Exclusive),
            false => array.try_readonly().map(Flag::Shared),
        };
        Ok(flag.map(|flag| BorrowFlag { flag, is_of_element }))
    }

    /// Returns whether the array whose flag it is still has the memory of a view.
    pub(super) fn is_of_memory(&self, view: &View) -> bool {
        let array = match &self.flag {
            Flag::Shared(array) => array.as_untyped(),
            Flag::Exclusive(array) => array.as_untyped(),
        };
        // Nobody else has the array of a single element.
        self.is_of_element || numpy_array::is_described_by(array, view)
    }
}

/// The memory of an array whose elements are all in one place, as an array of one axis.
#[cold]
fn only_element<'py>(array: &Bound<'py, PyUntypedArray>) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = array.py();
    // The ellipsis makes it a view, and not a number.
    let zeros = std::iter::repeat_n(0_usize.into_pyobject(py)?.into_any(), array.ndim());
    let index: Vec<_> = zeros.chain([py.Ellipsis().into_bound(py)]).collect();
    let element = array.get_item(PyTuple::new(py, index)?)?;
    Ok(element.call_method1("reshape", (1,))?.cast_into::<PyUntypedArray>()?)
}
