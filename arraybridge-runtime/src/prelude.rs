//! What a crate of declared functions imports: `use arraybridge_runtime::prelude::*;`.

pub use arraybridge_macros::{NamedTuple, memory_methods};
pub use half::{bf16, f16};
pub use ndarray::{
    Array, Array0, Array1, Array2, Array3, Array4, Array5, Array6, ArrayD, ArrayRef, ArrayView,
    ArrayView0, ArrayView1, ArrayView2, ArrayView3, ArrayView4, ArrayView5, ArrayView6, ArrayViewD,
    ArrayViewMut, ArrayViewMut0, ArrayViewMut1, ArrayViewMut2, ArrayViewMut3, ArrayViewMut4,
    ArrayViewMut5, ArrayViewMut6, ArrayViewMutD,
};
pub use num_complex::Complex;
pub use pyo3::{Bound, Py, PyAny, PyErr, PyResult, Python};

pub use crate::cuda::Stream;
pub use crate::dispatch;
pub use crate::framework::device::Device;
pub use crate::framework::spec::DType;
pub use crate::interpreter::error::{Error, Result};
pub use crate::memory::element::Element;
pub use crate::memory_type;
pub use crate::rust_function::device_memory::{DeviceArray, DeviceView, DeviceViewMut};
pub use crate::tensor::{Tensor, TensorView};
