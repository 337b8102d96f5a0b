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

/// Constants are taken for patterns where a name of theirs is bound.
mod names {
    #![allow(
        dead_code,
        non_upper_case_globals,
        reason = "names that an expansion must not pick up"
    )]

    pub const value: u8 = 3;
    pub const error: u8 = 4;
    pub const shape: u8 = 5;
    pub const fits: u8 = 6;
    pub const total: f64 = 7.0;

    pub fn py() -> u8 {
        value
    }
}

#[allow(unused_imports, reason = "names that an expansion must not pick up")]
use names::*;

/// Every value has these methods, which come before those that take a reference.
#[allow(dead_code, reason = "methods that an expansion must not pick up")]
trait Everything: ::core::marker::Sized {
    fn call(self, _: u8) {}
    fn give(self, _: u8) {}
    fn py(self, _: u8) {}
    fn value(self, _: u8) {}
    fn give_value(self, _: u8) {}
    fn give_array(self, _: u8) {}
    fn claim_memory(self, _: u8) {}
    fn map_err(self, _: u8) {}
}

impl<T> Everything for T {}

/// A named tuple with the name of a constant.
#[derive(::arraybridge_runtime::prelude::NamedTuple)]
struct Totals {
    total: f64,
}

#[memory_type(numpy, crate = renamed, defaults(n = py(), m = value), shape(image = [_]), for T in (f32, f64))]
fn hygienic_names<T: renamed::prelude::Element>(
    image: ArrayView1<'_, T>,
    other: ArrayView1<'_, T>,
    n: u8,
    m: u8,
) -> Totals {
    let _ = (image, other);
    Totals { total: (n + m) as f64 }
}

/// It cannot be detached, since its value cannot leave its thread.
#[memory_type(numpy, crate = renamed)]
fn hygienic_attached(image: ArrayView1<'_, f32>, object: ::pyo3::Py<::pyo3::PyAny>) -> Totals {
    let _ = (image, object);
    Totals { total: 0.5 }
}

/// It may be detached.
#[memory_type(numpy, crate = renamed)]
fn hygienic_detached(image: ArrayView1<'_, f32>) -> Totals {
    let _ = image;
    Totals { total: 1.5 }
}

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
