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
mod tests {
    use ndarray::{Axis, array};

    use super::*;
    use crate::claims::{Claim, User, Wanted};
    use crate::error::Error;
    use crate::memory::view::View;

    #[test]
    fn a_cast_of_a_strided_tensor_is_contiguous_and_in_the_order_of_the_axes() {
        let mut array = array![[1_u8, 2, 3], [4, 5, 6]].reversed_axes();
        array.invert_axis(Axis(0));
        let cast = Tensor::from(array.clone()).cast(DType::Float64).unwrap();
        assert_eq!((cast.dtype(), cast.strides()), (DType::Float64, &[16, 8][..]));
        assert_eq!(*cast.view::<f64>().unwrap(), array.mapv(f64::from).into_dyn());
        let copy = Tensor::from(array.clone()).to_contiguous().unwrap();
        assert_eq!((copy.dtype(), copy.strides()), (DType::Uint8, &[2, 1][..]));
        assert_eq!(*copy.view::<u8>().unwrap(), array.into_dyn());
    }

    #[test]
    fn a_cast_counts_what_it_loses() {
        let tensor = Tensor::from_vec(vec![300.0_f64, 0.25, 7.0], &[3]).unwrap();
        let (bytes, report) = tensor.cast_with(DType::Uint8, Scaling::Clamp).unwrap();
        assert_eq!(*bytes.view::<u8>().unwrap(), array![255, 0, 7].into_dyn());
        assert_eq!((report.clipped, report.fractions), (1, 1));
    }

    #[test]
    fn an_imaginary_part_is_not_dropped() {
        let complex = Tensor::from_vec(vec![num_complex::Complex::new(1.0_f32, 2.0)], &[1]);
        let error = complex.unwrap().cast(DType::Float32).unwrap_err();
        assert!(error.to_string().contains("take the real part first"), "{error}");
    }

    #[test]
    fn a_copy_that_does_not_fit_into_memory_is_an_error() {
        let (view, owner) = Source::from(ndarray::Array1::<u8>::zeros(1)).into_parts();
        // SAFETY: every element is the first one of the array, which the owner keeps.
        let source = unsafe {
            let wide =
                View::new(view.data(), DType::Uint8, [1 << 62, 4][..].into(), [0, 0][..].into());
            Source::new(wide, owner)
        };
        let tensor = Tensor::from(source);
        assert!(matches!(tensor.to_contiguous(), Err(Error::Memory(_))));
        assert!(matches!(tensor.cast(DType::Float64), Err(Error::Memory(_))));
    }

    #[test]
    fn memory_that_a_function_writes_to_is_not_copied() {
        let tensor = Tensor::from_vec(vec![1_u8, 2], &[2]).unwrap();
        let shared = tensor.clone();
        let user = User::parameter("fill", "out");
        let writing = Claim::new(&[Wanted::of(tensor.description(), user, true)]);
        assert!(matches!(shared.to_contiguous(), Err(Error::Aliased(_))));
        assert!(matches!(shared.cast(DType::Uint16), Err(Error::Aliased(_))));
        drop(writing);
        assert!(shared.to_contiguous().is_ok());
    }
}
