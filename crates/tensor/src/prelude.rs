//! The names that a Rust program imports: `use arraybridge_tensor::prelude::*;`.

#[cfg(not(feature = "half"))]
#[doc(hidden)]
pub use crate::memory::element::{bf16, f16};
#[cfg(feature = "half")]
pub use half::{bf16, f16};
pub use ndarray::{
    Array, Array0, Array1, Array2, Array3, Array4, Array5, Array6, ArrayD, ArrayRef, ArrayView,
    ArrayView0, ArrayView1, ArrayView2, ArrayView3, ArrayView4, ArrayView5, ArrayView6, ArrayViewD,
    ArrayViewMut, ArrayViewMut0, ArrayViewMut1, ArrayViewMut2, ArrayViewMut3, ArrayViewMut4,
    ArrayViewMut5, ArrayViewMut6, ArrayViewMutD,
};
pub use num_complex::Complex;

pub use crate::dispatch;
pub use crate::error::{Error, Result};
pub use crate::memory::element::Element;
pub use crate::tensor::{Tensor, TensorView};
pub use arraybridge_host::cast::{CastReport, Scaling};
pub use arraybridge_host::dtype::{DType, Kind};
