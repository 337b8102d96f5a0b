//! Smooths a 16-bit picture and shows it with 8 bits.

use arraybridge_tensor::prelude::*;
use image::Luma;
use rust_tensors::{Picture, from_picture, into_picture};

fn main() -> rust_tensors::Result<()> {
    let picture = Picture::<Luma<u16>>::from_fn(64, 48, |x, y| Luma([(900 * x + 100 * y) as u16]));
    let tensor = from_picture(picture)?;
    println!("a picture is a {tensor:?}");

    // An exact cast, in memory that an array of ndarray takes over.
    let pixels = tensor.cast(DType::Float32)?.try_into_array::<f32>()?;
    let smooth = smoothed(pixels)?;

    let (shown, report) = Tensor::from(smooth).cast_with(DType::Uint8, Scaling::Stretch)?;
    let shown = into_picture::<Luma<u8>>(shown)?;
    let (first, last) = (shown.get_pixel(0, 0)[0], shown.get_pixel(63, 47)[0]);
    println!("it is shown from {first} to {last}, {} pixels clipped", report.clipped);
    Ok(())
}

/// The mean of each pixel and its neighbours in its row.
#[cfg(not(feature = "candle"))]
fn smoothed(pixels: ArrayD<f32>) -> rust_tensors::Result<ArrayD<f32>> {
    let width = pixels.shape()[1];
    Ok(ArrayD::from_shape_fn(pixels.shape(), |at| {
        let columns = at[1].saturating_sub(1)..width.min(at[1] + 2);
        let count = columns.len() as f32;
        columns.map(|x| pixels[[at[0], x, at[2]]]).sum::<f32>() / count
    }))
}

/// The mean of each pixel and its neighbours in its row, which candle computes.
#[cfg(feature = "candle")]
fn smoothed(pixels: ArrayD<f32>) -> rust_tensors::Result<ArrayD<f32>> {
    use rust_tensors::candle::{from_candle, to_candle};

    let pixels = to_candle(Tensor::from(pixels))?;
    let ones = pixels.ones_like()?;
    let sum = |tensor: &candle_core::Tensor| -> candle_core::Result<candle_core::Tensor> {
        let width = tensor.dim(1)?;
        let padded = tensor.pad_with_zeros(1, 1, 1)?;
        let [left, middle, right] = [0, 1, 2].map(|start| padded.narrow(1, start, width));
        left? + middle? + right?
    };
    let smooth = (sum(&pixels)? / sum(&ones)?)?;
    // SAFETY: nobody else has the tensor.
    Ok(unsafe { from_candle(smooth) }?.try_into_array::<f32>()?)
}
