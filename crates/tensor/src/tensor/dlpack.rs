//! Tensors as DLPack's managed tensors, and back, without Python.

use dlpark::ffi::DLManagedTensorVersioned;
use dlpark::{Managed, ManagedTensorBase};

use super::{Tensor, expect_device, streams};
use crate::dlpack::{self, managed};
use crate::error::{Error, Result};
use crate::memory::source::Owner;

impl Tensor {
    /// The memory as a DLPack tensor, without a copy, for another library.
    ///
    /// It is read-only if it belongs to Rust and has other tensors too. Device memory may be used on the legacy
    /// default stream.
    ///
    /// ```
    /// use arraybridge_tensor::prelude::Tensor;
    ///
    /// let tensor = Tensor::from_vec(vec![1.0_f32, 2.0, 3.0], &[3])?;
    /// let exported = tensor.into_dlpack()?;
    /// assert_eq!(exported.validate().unwrap().shape(), [3]);
    /// # Ok::<(), arraybridge_tensor::prelude::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// CUDA's, for device memory.
    pub fn into_dlpack(self) -> Result<Managed<DLManagedTensorVersioned>> {
        let (source, stream) = self.into_parts();
        Ok(streams::settled(source, &stream)?.hand_over(managed::versioned))
    }

    /// A tensor of the memory of another library's DLPack tensor, without a copy. The tensor is freed when the
    /// memory has no user any more.
    ///
    /// ```
    /// use arraybridge_tensor::prelude::Tensor;
    ///
    /// let exported = Tensor::from_vec(vec![1_u8, 2, 3], &[3])?.into_dlpack()?;
    /// // SAFETY: the memory is that of a vector, which nobody else has.
    /// let tensor = unsafe { Tensor::from_dlpack(exported)? };
    /// assert_eq!(tensor.view::<u8>()?[[2]], 3);
    /// # Ok::<(), arraybridge_tensor::prelude::Error>(())
    /// ```
    ///
    /// # Safety
    ///
    /// The tensor keeps what the DLPack specification says: its elements are valid for reads until its
    /// deleter is called, and for writes unless it is read-only. Nobody writes to them while they are read
    /// through a [`TensorView`](super::TensorView), copied or cast, except declared functions, which claim
    /// memory that they write to. Work on device memory has been ordered before the legacy default stream.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] if the tensor cannot be read: its descriptor contradicts itself, its element type is
    /// not a [`DType`](arraybridge_host::dtype::DType), or it is on a device that is not CUDA's. It is freed then.
    pub unsafe fn from_dlpack<M: ManagedTensorBase>(tensor: Managed<M>) -> Result<Tensor>
    where
        Owner: From<Managed<M>>,
    {
        // SAFETY: the caller vouches for the elements.
        let source = unsafe { dlpack::adopt(tensor) };
        let mut source = source.map_err(|invalid| Error::Value(invalid.to_string()))?;
        expect_device(source.view().device())?;
        // A legacy tensor cannot say whether it may be written to.
        source.restrict(matches!(source.owner(), Owner::Legacy(_)));
        Ok(source.into())
    }
}

#[cfg(test)]
mod tests;
