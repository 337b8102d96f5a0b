//! Functions whose arrays have constraints.

use arraybridge_runtime::prelude::*;

/// The sum of the channels of an image.
#[memory_type(numpy, cast, shape(image = [_height, _width, 3], tint = [3]))]
fn tinted(image: ArrayView3<'_, f32>, tint: Option<ArrayView1<'_, f32>>) -> f32 {
    let weight = tint.map_or(1.0, |tint| tint.sum());
    image.sum() * weight
}

/// Grey or coloured.
#[memory_type(numpy, shape(image = [_, _] | [_, _, 3..=4], tensor = [.., 2]))]
fn axes(image: ArrayViewD<'_, u8>, tensor: Option<&Tensor>) -> usize {
    let _ = tensor;
    image.ndim()
}

/// The address of an array, and whether it is a slice.
#[memory_type(numpy, cast, contiguous(image, out))]
fn address_of_slice(
    image: ArrayViewD<'_, f32>,
    out: Option<ArrayViewMutD<'_, f32>>,
) -> (usize, bool, bool) {
    let is_slice = image.as_slice().is_some();
    (image.as_ptr() as usize, is_slice, out.is_none_or(|mut out| out.as_slice_mut().is_some()))
}

#[memory_type(numpy, cast, no_copy(image))]
fn address(image: ArrayViewD<'_, f32>) -> usize {
    image.as_ptr() as usize
}

#[memory_type(numpy, contiguous(image), no_copy(image, mask))]
fn slice_address(
    image: Option<ArrayViewD<'_, f32>>,
    mask: Option<ArrayViewD<'_, bool>>,
    callback: Option<Bound<'_, PyAny>>,
) -> usize {
    let _ = (mask, callback);
    image.map_or(0, |image| image.as_slice().expect("it is contiguous").as_ptr() as usize)
}
