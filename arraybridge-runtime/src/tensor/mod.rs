//! The class `arraybridge.Tensor`, and tensors of Python's arrays.

mod class;
mod exchange;
mod opened;
mod python;

pub use arraybridge_tensor::tensor::Tensor;
pub use class::{PyTensor, add_class};
pub use opened::from_opened;
pub use python::into_framework;
