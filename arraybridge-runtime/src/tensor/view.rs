//! A tensor's elements, borrowed.

use std::fmt;
use std::mem::transmute_copy;
use std::ops::Deref;

use ndarray::{ArrayRef, ArrayViewD, CowArray, IxDyn};

use super::Tensor;
use super::elements::{as_bytes, not_bools, raw};
use crate::claims::{Claim, User, Wanted};
use crate::host::dtype::DType;
use crate::interpreter::error::{Error, Result};
use crate::memory::element::Element;
use crate::memory::view::View;

/// The elements of a host [`Tensor`], borrowed to read.
///
/// It is used like an array of `ndarray`; [`view`](ArrayRef::view) gives an `ArrayView` of it. While it
/// lives no declared function is given the memory to write to.
///
/// ```
/// use arraybridge_runtime::prelude::Tensor;
///
/// let tensor = Tensor::from_vec(vec![1_u16, 2, 3], &[3])?;
/// let elements = tensor.view::<u16>()?;
/// assert_eq!((elements[[2]], elements.sum()), (3, 6));
/// # Ok::<(), arraybridge_runtime::prelude::Error>(())
/// ```
///
/// What is borrowed of it does not outlive it:
///
/// ```compile_fail,E0716
/// use arraybridge_runtime::prelude::Tensor;
///
/// let tensor = Tensor::from_vec(vec![1_u16, 2, 3], &[3]).unwrap();
/// let elements = tensor.view::<u16>().unwrap().view();
/// assert_eq!(elements.sum(), 6);
/// ```
pub struct TensorView<'a, T: Element> {
    array: CowArray<'a, T, IxDyn>,
    // Released after the array is gone: fields are dropped in their order.
    _claim: Option<Claim>,
}

impl<T: Element> Deref for TensorView<'_, T> {
    type Target = ArrayRef<T, IxDyn>;

    fn deref(&self) -> &ArrayRef<T, IxDyn> {
        &self.array
    }
}

impl<T: Element + fmt::Debug> fmt::Debug for TensorView<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.array.fmt(f)
    }
}

impl Tensor {
    /// The elements of a host tensor.
    ///
    /// Memory that Python or another tensor may have as well is claimed while the view lives. Bools of
    /// such memory are copied, since others can write any byte to it.
    ///
    /// # Errors
    ///
    /// [`Error::Type`] when the elements have another type, are on a device, or are bools that are
    /// neither 0 nor 1. [`Error::Aliased`] while a declared function writes to the memory.
    pub fn view<T: Element>(&self) -> Result<TensorView<'_, T>> {
        let claim = if self.is_sole_owner() { None } else { claim(self.description())? };
        let bools = [T::DTYPE, self.dtype()] == [DType::Bool; 2];
        let array = match bools && claim.is_some() {
            true => copy_of_bools(self.description())?,
            false => CowArray::from(elements(self.description())?),
        };
        Ok(TensorView { array, _claim: claim })
    }

    /// Whether the memory is Rust's, and nobody else's.
    pub(super) fn is_sole_owner(&self) -> bool {
        self.owner().is_sole()
    }
}

fn claim(view: &View) -> Result<Option<Claim>> {
    if view.is_empty() {
        return Ok(None);
    }
    Claim::new(&[Wanted::of(view, User::TENSOR, false)]).map(Some).map_err(|conflict| {
        let overlaps = conflict.overlaps();
        Error::Aliased(format!("the tensor's memory {overlaps} {conflict}; copy it first"))
    })
}

/// The elements where they are.
fn elements<T: Element>(view: &View) -> Result<ArrayViewD<'_, T>> {
    // SAFETY: the tensor whose description is borrowed keeps the memory alive. Nobody writes to memory
    // that only the tensor has, and no declared function writes to memory that is claimed. What Python
    // code must not do is in ARCHITECTURE.md, "What is assumed of Python threads".
    unsafe { Ok(raw(view)?.deref_into_view()) }
}

/// Bools that are copied before they are checked: others may write any byte meanwhile.
fn copy_of_bools<T: Element>(view: &View) -> Result<CowArray<'static, T, IxDyn>> {
    let bytes = as_bytes(view);
    let bytes = elements::<u8>(&bytes)?.to_owned();
    if bytes.iter().any(|byte| *byte > 1) {
        return Err(not_bools());
    }
    // SAFETY: `T` is `bool`, the only type of this element type, and the byte is 0 or 1.
    let bools = bytes.mapv(|byte| unsafe { transmute_copy::<u8, T>(&byte) });
    Ok(CowArray::from(bools))
}
