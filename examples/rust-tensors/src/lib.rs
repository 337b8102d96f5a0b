//! Pictures of the `image` crate, arrays of `ndarray` and tensors of candle exchange their memory. There is no
//! Python in it: `arraybridge-runtime` is built without its default features, and dlpark knows the other crates.

#[cfg(feature = "candle")]
pub mod candle;

use std::error::Error;

use arraybridge_tensor::prelude::Tensor;
use dlpark::allocation::fixed;
use dlpark::ffi::DLManagedTensorVersioned;
use dlpark::interop::image::DlpackContainer;
use dlpark::{DlpackElement, TryFromDlpack};
use image::{ImageBuffer, Pixel};

/// A result with any crate's error.
pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A picture in a vector.
pub type Picture<P> = ImageBuffer<P, Vec<<P as Pixel>::Subpixel>>;

/// A picture in memory that another crate allocated.
pub type BorrowedPicture<P> =
    ImageBuffer<P, DlpackContainer<DLManagedTensorVersioned, <P as Pixel>::Subpixel>>;

/// The pixels of a picture, by row, column and channel, without a copy.
pub fn from_picture<P>(picture: Picture<P>) -> Result<Tensor>
where
    P: Pixel + Send,
    P::Subpixel: DlpackElement + Send,
{
    let exported: fixed::Initialized<DLManagedTensorVersioned, 3> = Box::new(picture).try_into()?;
    // SAFETY: the pixels are in the box, which the exported tensor owns and nobody else has.
    Ok(unsafe { Tensor::from_dlpack(exported.finish()) }?)
}

/// A contiguous tensor of rows, columns and channels as a picture, without a copy.
pub fn into_picture<P>(tensor: Tensor) -> Result<BorrowedPicture<P>>
where
    P: Pixel,
    P::Subpixel: DlpackElement,
{
    // SAFETY: a tensor's memory is valid as long as what it exports. The picture only reads it, and so does
    // whoever else has it.
    Ok(unsafe { ImageBuffer::try_from_dlpack(tensor.into_dlpack()?, ()) }?)
}
