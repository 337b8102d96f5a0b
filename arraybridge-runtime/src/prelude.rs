//! The names that a crate of declared functions imports: `use arraybridge_runtime::prelude::*;`.

pub use arraybridge_macros::{NamedTuple, memory_methods};
pub use arraybridge_tensor::prelude::{
    Array, Array0, Array1, Array2, Array3, Array4, Array5, Array6, ArrayD, ArrayRef, ArrayView,
    ArrayView0, ArrayView1, ArrayView2, ArrayView3, ArrayView4, ArrayView5, ArrayView6, ArrayViewD,
    ArrayViewMut, ArrayViewMut0, ArrayViewMut1, ArrayViewMut2, ArrayViewMut3, ArrayViewMut4,
    ArrayViewMut5, ArrayViewMut6, ArrayViewMutD, CastReport, Complex, DType, Element, Kind,
    Scaling, Tensor, TensorView, bf16, f16,
};
pub use pyo3::{Bound, Py, PyAny, PyErr, PyResult, Python};

#[cfg(feature = "cuda")]
pub use crate::cuda::Stream;
pub use crate::dispatch;
pub use crate::error::{Error, Result};
pub use crate::framework::device::Device;
pub use crate::memory_type;
pub use crate::rust_function::Interrupt;
#[cfg(feature = "cuda")]
pub use crate::rust_function::device_memory::{DeviceArray, DeviceView, DeviceViewMut};
