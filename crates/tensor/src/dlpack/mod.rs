//! DLPack's structures in both directions: foreign tensors, and exports of our own memory.
//!
//! A foreign producer yields a `Managed` tensor. Only [`describe`] turns it into a
//! [`View`], which everything else reads.

pub mod managed;

use dlpark::ffi::DLTensor;
use dlpark::tensor::TensorRef;
use dlpark::{Managed, ManagedTensorBase};

use crate::memory::source::{Owner, Source};
use crate::memory::view::{Dims, View};
use arraybridge_host::dtype::DType;
use arraybridge_host::layout::contiguous_strides;

/// The number of CUDA's legacy default stream.
pub const LEGACY_STREAM: usize = 1;

/// The number of the default stream that CUDA gives each thread.
pub const PER_THREAD_STREAM: usize = 2;

/// The reason why a foreign tensor cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Invalid {
    /// The descriptor contradicts itself.
    #[error("the DLPack tensor is invalid: {0}")]
    Descriptor(#[from] dlpark::tensor::Error),
    /// The tensor has elements, but its data pointer is null.
    #[error("the DLPack tensor has elements but no data")]
    NullData,
    /// The element type is not one of [`DType`].
    #[error(
        "arraybridge does not convert the DLPack type with code {code}, {bits} bits and {lanes} lanes"
    )]
    Dtype {
        /// The DLPack type code.
        code: u8,
        /// The bits of one lane.
        bits: u8,
        /// The number of lanes.
        lanes: u16,
    },
    /// The strides in bytes overflow.
    #[error("the DLPack tensor is larger than the address space")]
    TooLarge,
}

/// Checks a foreign tensor and describes it.
///
/// # Errors
///
/// [`Invalid`] if the descriptor cannot be read.
pub fn describe<M: ManagedTensorBase>(tensor: &Managed<M>) -> Result<View, Invalid> {
    let mut view = View::default();
    let checked = tensor.validate()?;
    describe_in(&checked, &mut view)?;
    view.restrict(tensor.flags().contains(dlpark::DlpackFlags::READ_ONLY));
    Ok(view)
}

/// The memory of a foreign tensor, which becomes its owner.
///
/// # Safety
///
/// The elements that the tensor describes are valid for reads until its deleter is called, and for
/// writes unless it is read-only, as the DLPack specification says.
///
/// # Errors
///
/// [`Invalid`] if the descriptor cannot be read. The tensor is freed then.
pub unsafe fn adopt<M: ManagedTensorBase>(tensor: Managed<M>) -> Result<Source, Invalid>
where
    Owner: From<Managed<M>>,
{
    let view = describe(&tensor)?;
    // SAFETY: the elements are valid until the deleter is called, which happens when the owner is dropped,
    // and the view is read-only if the tensor says so.
    Ok(unsafe { Source::new(view, tensor.into()) })
}

/// The element type and the shape of a checked descriptor.
///
/// # Errors
///
/// [`Invalid`] for an unknown element type.
pub fn prototype(checked: &TensorRef<'_>) -> Result<(DType, Dims<usize>), Invalid> {
    Ok((dtype(checked)?, checked.shape().iter().map(|n| *n as usize).collect()))
}

fn dtype(checked: &TensorRef<'_>) -> Result<DType, Invalid> {
    let dtype = checked.dtype();
    DType::from_dlpack(dtype).ok_or(Invalid::Dtype {
        code: dtype.code.0,
        bits: dtype.bits,
        lanes: dtype.lanes,
    })
}

/// Describes the tensor of a checked descriptor in place.
///
/// # Errors
///
/// [`Invalid`] for an unknown element type, strides that overflow, and elements without an address.
#[inline]
pub fn describe_in(checked: &TensorRef<'_>, view: &mut View) -> Result<(), Invalid> {
    let dtype = dtype(checked)?;
    let size = dtype.size();
    let shape = checked.shape().iter().map(|n| *n as usize);
    let mut fits = true;
    // SAFETY: there are as many strides as extents. By the DLPack specification the elements are in the
    // tensor's allocation. If the strides overflow, the view gets no address.
    unsafe {
        match checked.strides() {
            Some(strides) => {
                let bytes = strides.iter().map(|stride| {
                    let bytes = stride_in_bytes(*stride as isize, size);
                    fits &= bytes.is_some();
                    bytes.unwrap_or_default()
                });
                view.set_axes(shape, bytes);
            }
            None => {
                let shape: Dims<usize> = shape.collect();
                let strides = contiguous_strides(&shape, dtype.size());
                view.set_axes(shape.iter().copied(), strides.iter().copied());
            }
        }
        if !fits {
            return Err(Invalid::TooLarge);
        }
        let data = checked.data_ptr().cast_mut().cast::<u8>();
        let offset = checked.byte_offset() as usize;
        if data.addr().checked_add(offset).is_none() {
            return Err(Invalid::TooLarge);
        }
        let data = data.wrapping_add(offset);
        view.set_elements(data, dtype, checked.device());
    }
    match checked.data_ptr().is_null() && !view.is_empty() {
        true => Err(Invalid::NullData),
        false => Ok(()),
    }
}

/// A stride of so many elements of a size. CuPy divides a negative one as a number without a sign; half of the address
/// space and more is such a one, since no array has a stride of that.
#[inline]
fn stride_in_bytes(elements: isize, size: usize) -> Option<isize> {
    let signed = || elements.checked_mul(size as isize);
    let unsigned = || (elements as usize).checked_mul(size).map(|bytes| bytes as isize);
    signed().or_else(|| (elements > 0).then(unsigned).flatten())
}

/// The raw descriptor of a checked tensor.
fn raw<M: ManagedTensorBase>(tensor: &Managed<M>) -> &DLTensor {
    // SAFETY: the handle owns the tensor, and an owned tensor's descriptor does not change.
    unsafe { tensor.tensor() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stride_of_half_the_address_space_is_a_negative_one_without_its_sign() {
        for size in [1, 2, 4, 8, 16] {
            for bytes in [-16, -32, 0, 48, isize::MIN] {
                assert_eq!(stride_in_bytes(bytes / size as isize, size), Some(bytes), "{size}");
                let quotient = (bytes as usize / size) as isize;
                assert_eq!(stride_in_bytes(quotient, size), Some(bytes), "{size}");
            }
        }
        assert_eq!(stride_in_bytes(isize::MIN, 2), None);
        assert_eq!(stride_in_bytes(isize::MAX, 4), None);
    }

    #[test]
    fn a_negative_stride_without_its_sign_is_passed_on_with_it() {
        let source = Source::from_slice(&[1.0_f32, 2.0], &[2]).unwrap();
        let tensor = source.hand_over(managed::versioned).into_raw();
        // SAFETY: nobody else has the tensor. It has one stride, and its second element comes first now.
        let reversed = unsafe {
            let descriptor = &mut (*tensor).dl_tensor;
            descriptor.data = descriptor.data.byte_add(4);
            *descriptor.strides = (-4_isize as usize / 4) as i64;
            adopt(Managed::from_raw(tensor).unwrap()).unwrap()
        };
        assert_eq!(reversed.view().strides(), [-4]);
        let passed_on = reversed.hand_over(managed::versioned);
        // SAFETY: nobody else has the tensor, which has one stride.
        assert_eq!(unsafe { *raw(&passed_on).strides }, -1);
    }
}
