//! Copies and casts of tensors, which need no Python.

use super::Tensor;
use crate::error::Result;
use crate::memory::copy;
use crate::memory::source::Source;
use arraybridge_host::cast::{CastReport, Scaling};
use arraybridge_host::dtype::DType;

impl Tensor {
    /// A copy of a host tensor in new memory, in row-major order.
    ///
    /// ```
    /// use arraybridge_tensor::prelude::Tensor;
    /// use ndarray::array;
    ///
    /// let transposed = Tensor::from(array![[1_u16, 2, 3], [4, 5, 6]].reversed_axes());
    /// let copy = transposed.to_contiguous()?;
    /// assert_eq!((transposed.strides(), copy.strides()), (&[2, 6][..], &[4, 2][..]));
    /// assert_eq!(*copy.view::<u16>()?, array![[1, 4], [2, 5], [3, 6]].into_dyn());
    /// # Ok::<(), arraybridge_tensor::prelude::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Value`] for memory on a device, [`Error::Memory`] if the allocation fails, and
    /// [`Error::Aliased`] while a declared function writes to the memory.
    ///
    /// [`Error::Value`]: crate::error::Error::Value
    /// [`Error::Memory`]: crate::error::Error::Memory
    /// [`Error::Aliased`]: crate::error::Error::Aliased
    pub fn to_contiguous(&self) -> Result<Tensor> {
        let _claim = self.claim()?;
        let buffer = copy::copy_to_buffer(self.description())?;
        // SAFETY: the copy wrote every element.
        Ok(unsafe { Source::from_buffer(buffer, self.dtype(), self.shape().into()) }.into())
    }
}

/// Without the feature `casts`, the loops are those of the `arraybridge` package.
impl Tensor {
    /// A copy of a host tensor with another element type, in row-major order.
    ///
    /// A number that an integer type cannot hold becomes the nearest one that it can: floats are rounded half
    /// to even, integers saturate, and NaN becomes 0. A cast to floats rounds to the nearest. Everything but
    /// zero is true.
    ///
    /// ```
    /// use arraybridge_tensor::prelude::{DType, Tensor};
    ///
    /// let floats = Tensor::from_vec(vec![0.5_f32, 1.5, -7.0, 1e10, f32::NAN], &[5])?;
    /// let bytes = floats.cast(DType::Uint8)?;
    /// assert_eq!(bytes.view::<u8>()?.as_slice(), Some(&[0, 2, 0, 255, 0][..]));
    /// # Ok::<(), arraybridge_tensor::prelude::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`to_contiguous`](Tensor::to_contiguous), and [`Error::Value`] for complex to
    /// real. Without the feature `casts`, also [`Error::Value`] outside Python, and if the `arraybridge`
    /// package cannot be imported.
    ///
    /// [`Error::Value`]: crate::error::Error::Value
    pub fn cast(&self, dtype: DType) -> Result<Tensor> {
        Ok(self.cast_with(dtype, Scaling::Clamp)?.0)
    }

    /// Does what [`cast`](Tensor::cast) does, with a choice of how floats become integers, and a
    /// count of the values that were lost.
    ///
    /// ```
    /// use arraybridge_tensor::prelude::{DType, Scaling, Tensor};
    ///
    /// let intensities = Tensor::from_vec(vec![0.0_f32, 0.5, 1.0, 1.2], &[4])?;
    /// let (pixels, report) = intensities.cast_with(DType::Uint16, Scaling::Unit)?;
    /// assert_eq!(pixels.view::<u16>()?.as_slice(), Some(&[0, 32768, 65535, 65535][..]));
    /// assert_eq!(report.clipped, 1);
    /// # Ok::<(), arraybridge_tensor::prelude::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`cast`](Tensor::cast).
    pub fn cast_with(&self, dtype: DType, scaling: Scaling) -> Result<(Tensor, CastReport)> {
        #[cfg(not(feature = "casts"))]
        crate::binding::find_casts();
        let _claim = self.claim()?;
        let (buffer, report) = copy::cast_to_buffer(self.description(), dtype, scaling)?;
        // SAFETY: the cast wrote every element.
        let source = unsafe { Source::from_buffer(buffer, dtype, self.shape().into()) };
        Ok((source.into(), report))
    }
}

#[cfg(all(test, feature = "casts"))]
mod tests;
