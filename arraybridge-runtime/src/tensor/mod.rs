//! The class `arraybridge.Tensor`, and tensors of Python's arrays.

mod class;
mod exchange;
mod python;

pub use arraybridge_tensor::tensor::Tensor;
pub use class::{PyTensor, add_class};
pub use python::{from_opened, into_framework};
