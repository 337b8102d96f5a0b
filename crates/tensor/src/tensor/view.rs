//! A tensor's elements, borrowed.

use std::any::Any;
use std::fmt;
use std::mem::transmute_copy;
use std::ops::Deref;
use std::sync::{Mutex, PoisonError};

use ndarray::{
    Array, ArrayD, ArrayRef, ArrayViewD, CowArray, Dimension, Ix1, Ix2, Ix3, Ix4, IxDyn,
};

use super::Tensor;
use super::elements::{as_bytes, expect_bools, not_bools, raw};
use crate::claims::{Claim, User, Wanted};
use crate::error::{Error, Result};
use crate::memory::element::Element;
use crate::memory::source::Owner;
use crate::memory::view::View;
use arraybridge_host::dtype::DType;

/// The elements of a host [`Tensor`], borrowed to read.
///
/// It is used like an array of `ndarray`; [`view`](ArrayRef::view) gives an `ArrayView` of it. While it
/// lives no declared function is given the memory to write to.
///
/// ```
/// use arraybridge_tensor::prelude::Tensor;
///
/// let tensor = Tensor::from_vec(vec![1_u16, 2, 3], &[3])?;
/// let elements = tensor.view::<u16>()?;
/// assert_eq!((elements[[2]], elements.sum()), (3, 6));
/// # Ok::<(), arraybridge_tensor::prelude::Error>(())
/// ```
///
/// A borrow of the view does not outlive it:
///
/// ```compile_fail,E0716
/// use arraybridge_tensor::prelude::Tensor;
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
        let claim = self.claim()?;
        let bools = [T::DTYPE, self.dtype()] == [DType::Bool; 2];
        let array = match bools && claim.is_some() {
            true => copy_of_bools(self.description())?,
            false => CowArray::from(elements(self.description())?),
        };
        Ok(TensorView { array, _claim: claim })
    }

    /// The elements of a host tensor as an array. The memory is moved if no other tensor has it and it was
    /// a `Vec` or an array of `ndarray`; otherwise the elements are copied.
    ///
    /// ```
    /// use arraybridge_tensor::prelude::Tensor;
    ///
    /// let tensor = Tensor::from_vec(vec![1_u16, 2, 3, 4], &[2, 2])?;
    /// let mut array = tensor.try_into_array::<u16>()?;
    /// array[[1, 0]] = 9;
    /// assert_eq!(array.sum(), 16);
    /// # Ok::<(), arraybridge_tensor::prelude::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`view`](Tensor::view).
    pub fn try_into_array<T: Element>(self) -> Result<ArrayD<T>> {
        // Bools are checked here.
        drop(self.view::<T>()?);
        let Tensor { view, owner, stream } = self;
        let owner = match owner.into_inner().unwrap_or_else(PoisonError::into_inner).unshare() {
            Owner::Value(value) => match array_of::<T>(value, view.shape()) {
                Ok(array) => return Ok(array),
                Err(value) => Owner::Value(value),
            },
            owner => owner,
        };
        let tensor = Tensor { view, owner: Mutex::new(owner), stream };
        let array = tensor.view::<T>()?.to_owned();
        Ok(array)
    }

    /// Claims the memory for reading, unless it is Rust's and nobody else's.
    pub fn claim(&self) -> Result<Option<Claim>> {
        if self.owner().is_sole() { Ok(None) } else { claim(self.description()) }
    }
}

/// A vector or an array of these elements, which a tensor was made of; or the value itself.
fn array_of<T: Element>(
    value: Box<dyn Any + Send>,
    shape: &[usize],
) -> std::result::Result<ArrayD<T>, Box<dyn Any + Send>> {
    let value = match value.downcast::<Vec<T>>() {
        Ok(elements) => {
            return ArrayD::from_shape_vec(shape, *elements)
                .map_err(|_| unreachable!("a tensor of a vector has the shape of its elements"));
        }
        Err(value) => value,
    };
    fn of<T: Element, D: Dimension + 'static>(
        value: Box<dyn Any + Send>,
    ) -> std::result::Result<ArrayD<T>, Box<dyn Any + Send>> {
        value.downcast::<Array<T, D>>().map(|array| array.into_dyn())
    }
    of::<T, IxDyn>(value)
        .or_else(of::<T, Ix1>)
        .or_else(of::<T, Ix2>)
        .or_else(of::<T, Ix3>)
        .or_else(of::<T, Ix4>)
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
    let array = raw(view)?;
    // SAFETY: the tensor whose description is borrowed keeps the memory alive. Nobody writes to memory
    // that only the tensor has, and no declared function writes to memory that is claimed. What Python
    // code must not do is in ARCHITECTURE.md, "Assumptions about Python threads".
    unsafe {
        if T::DTYPE == DType::Bool {
            expect_bools(view)?;
        }
        Ok(array.deref_into_view())
    }
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
