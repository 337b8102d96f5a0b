//! Functions for several element types.

use std::ops::{Add, Mul};

use arraybridge_runtime::prelude::*;
use pyo3::prelude::*;

/// The name of an element type.
fn name_of<T: Element>() -> String {
    T::DTYPE.to_string()
}

/// Every element type that there is.
#[memory_type(numpy, for T in (
    bool, u8, u16, u32, u64, i8, i16, i32, i64, f16, bf16, f32, f64, Complex<f32>, Complex<f64>,
))]
fn element_type<T: Element>(data: ArrayViewD<'_, T>) -> String {
    let _ = data;
    name_of::<T>()
}

/// The transposed image.
#[memory_type(numpy, returns = input, for T in (u8, u16, f32))]
fn transposed<T: Element>(image: ArrayView2<'_, T>) -> Array2<T> {
    image.t().to_owned()
}

#[memory_type(numpy, cast, for T in (u8, u16, f32))]
fn cast_type<T: Element>(data: ArrayViewD<'_, T>) -> String {
    let _ = data;
    name_of::<T>()
}

#[memory_type(numpy, cast, for T in (u8, u16))]
fn cast_integers<T: Element>(data: ArrayViewD<'_, T>, out: Option<ArrayViewMutD<'_, T>>) -> String {
    let _ = (data, out);
    name_of::<T>()
}

/// Several arrays and numbers of one element type, and the array that decides is not the first one.
#[memory_type(numpy, for T in (u8, f32))]
fn weighted<T: Element + Add<Output = T> + Mul<Output = T>>(
    mask: ArrayView1<'_, bool>,
    image: ArrayView1<'_, T>,
    other: Option<ArrayView1<'_, T>>,
    by: Option<T>,
) -> Result<(Array1<T>, T)> {
    let mut result = image.to_owned();
    if let Some(by) = by {
        result.mapv_inplace(|x| x * by);
    }
    if let Some(other) = other {
        result = &result + &other;
    }
    let last = result.iter().zip(mask).filter(|(_, keep)| **keep).map(|(x, _)| *x).last();
    Ok((result, last.ok_or_else(|| Error::Value("an empty mask".into()))?))
}

#[memory_type(numpy, cast, for T in (u8, f32))]
fn added<T: Element + Add<Output = T>>(
    image: ArrayView1<'_, T>,
    background: ArrayView1<'_, T>,
) -> Array1<T> {
    &image + &background
}

#[memory_type(numpy, cast, for T in (i64, f32))]
fn filled<T: Element>(mut out: ArrayViewMutD<'_, T>, value: T) {
    out.fill(value);
}

#[memory_type(numpy, for T in (bool, i16, bf16, f16, f64, Complex<f32>, Complex<f64>))]
fn same_number<T: Element>(data: ArrayViewD<'_, T>, number: T) -> T {
    let _ = data;
    number
}

#[memory_type(numpy, for T in (i32, f64), defaults(by = 2 as T))]
fn multiplied<T: Element + Mul<Output = T>>(image: ArrayViewD<'_, T>, by: T) -> ArrayD<T> {
    image.mapv(|x| x * by)
}

#[memory_type(numpy, returns = input, slice_by_slice, for T in (u8, f32))]
fn turned_slices<T: Element>(image: ArrayView2<'_, T>) -> Array2<T> {
    image.t().to_owned()
}

#[memory_type(numpy, cast, dtype_conversion = preserve, for T in (f32, f64))]
fn halved_precisely<T: Element + Mul<Output = T>>(image: ArrayViewD<'_, T>) -> (ArrayD<T>, String)
where
    f32: Into<T>,
{
    (image.mapv(|x| x * 0.5.into()), name_of::<T>())
}

#[memory_type(numpy, cast, detach, for T in (u8, f32))]
fn attached_for_elements<T: Element>(image: ArrayViewD<'_, T>, value: Option<T>) -> bool {
    let _ = (image, value);
    super::is_attached()
}

#[memory_type(numpy, cast, for T in (u8, f32))]
fn attached_for_numbers<T: Element>(image: ArrayViewD<'_, T>, value: Option<T>) -> bool {
    let _ = (image, value);
    super::is_attached()
}

#[memory_type(torch, narrow = error, for T in (u8, f32))]
fn with_an_object<'py, T: Element>(
    object: &Bound<'py, PyAny>,
    image: ArrayView1<'_, T>,
    tensor: &Tensor,
) -> PyResult<(String, String, String)> {
    let _ = image;
    let class = object.get_type().fully_qualified_name()?.to_string();
    Ok((class, name_of::<T>(), tensor.dtype().to_string()))
}

#[memory_type(cupy, for T in (u8, f32))]
fn device_elements<T: Element>(
    image: DeviceView<'_, T>,
    stream: &Stream,
    out: Option<DeviceViewMut<'_, T>>,
) -> Result<(DeviceArray<T>, String)> {
    let _ = out;
    Ok((DeviceArray::zeros(image.shape(), stream)?, name_of::<T>()))
}
