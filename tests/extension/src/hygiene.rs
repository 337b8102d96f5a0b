//! The attribute's tokens stand alone, whatever is in scope and whatever the runtime is called.

#![no_implicit_prelude]

use ::arraybridge_runtime as renamed;
use ::arraybridge_runtime::prelude::{Array1, ArrayView1, ArrayViewMut1, Tensor, memory_type};
use ::arraybridge_runtime::prelude::{Device, DeviceArray, DeviceView, DeviceViewMut, Stream};

#[allow(dead_code, reason = "names that an expansion must not pick up")]
mod core {}
#[allow(dead_code, reason = "a name that an expansion must not pick up")]
type Option = ();
#[allow(dead_code, reason = "a name that an expansion must not pick up")]
type Result = ();

#[memory_type(numpy, crate = renamed, returns = input, defaults(n = 3))]
fn hygienic(
    image: ArrayView1<'_, f32>,
    out: ::core::option::Option<ArrayViewMut1<'_, f32>>,
    n: u8,
) -> ::core::result::Result<(Array1<f32>, ::core::option::Option<Tensor>), ::pyo3::PyErr> {
    let _ = (out, n);
    ::core::result::Result::Ok((image.to_owned(), ::core::option::Option::None))
}

#[memory_type(cupy, crate = renamed)]
fn device_hygienic(
    image: ::core::option::Option<DeviceView<'_, f32>>,
    out: ::core::option::Option<DeviceViewMut<'_, f32>>,
    device: Device,
    stream: &Stream,
) -> ::core::result::Result<DeviceArray<f32>, renamed::prelude::Error> {
    let _ = (image, out, device);
    DeviceArray::zeros(&[1], stream)
}
