//! Tensors of candle.

use arraybridge_tensor::prelude::Tensor;
use dlpark::allocation::dynamic;
use dlpark::ffi::DLManagedTensorVersioned;
use dlpark::{DlpackFlags, TryFromDlpack};

use crate::Result;

/// The memory of a tensor of candle, without a copy.
///
/// # Safety
///
/// Nobody writes to the tensor's memory any more: candle has a few operations that do, on any clone of it.
pub unsafe fn from_candle(tensor: candle_core::Tensor) -> Result<Tensor> {
    let mut exported: dynamic::Initialized<DLManagedTensorVersioned> =
        Box::new(tensor).try_into()?;
    exported.set_flags(DlpackFlags::READ_ONLY)?;
    // SAFETY: candle's tensor keeps its memory alive, and is in the box, which the exported tensor owns. That
    // nobody writes to it is what the caller vouches for.
    Ok(unsafe { Tensor::from_dlpack(exported.finish()) }?)
}

/// A tensor of candle with a copy of the memory: candle has no tensors of foreign memory.
pub fn to_candle(tensor: Tensor) -> Result<candle_core::Tensor> {
    let exported = tensor.into_dlpack()?;
    // SAFETY: a tensor's memory is valid as long as what it exports, and nobody writes to it.
    Ok(unsafe { candle_core::Tensor::try_from_dlpack(&exported, ()) }?)
}
