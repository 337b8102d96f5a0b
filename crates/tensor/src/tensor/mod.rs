//! `Tensor`, an n-dimensional array that belongs to no framework.

mod cast;
#[cfg(feature = "cuda")]
mod cuda;
mod dlpack;
pub mod elements;
pub mod streams;
mod view;

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dlpark::ffi::{DLDevice, DLDeviceType};
use ndarray::{Array, Dimension};

use crate::error::{Error, Result};
use crate::memory::element::Element;
use crate::memory::source::{Owner, Source};
use crate::memory::view::{View, is_host};
use arraybridge_host::dtype::DType;

pub use streams::WrittenOn;
pub use view::TensorView;

/// An n-dimensional array on the host or on a CUDA device, whose element type is known at run time. Its
/// memory is freed when the last user drops it, be that Rust, Python or a framework.
///
/// A clone shares the memory. Host memory that was allocated in Rust and has several tensors is read-only
/// in Python, since Rust code may be reading it.
///
/// ```
/// use arraybridge_tensor::prelude::Tensor;
///
/// let tensor = Tensor::from_vec(vec![1_u16, 2, 3, 4, 5, 6], &[2, 3]).unwrap();
/// assert_eq!(tensor.shape(), [2, 3]);
/// assert_eq!(tensor.view::<u16>().unwrap()[[1, 0]], 4);
/// assert!(tensor.view::<f32>().is_err());
/// ```
pub struct Tensor {
    view: View,
    owner: Mutex<Owner>,
    stream: WrittenOn,
}

impl Tensor {
    /// A tensor of the elements of a vector, in row-major order, without a copy.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] if the shape has another number of elements than the vector.
    pub fn from_vec<T: Element>(elements: Vec<T>, shape: &[usize]) -> Result<Tensor> {
        Ok(Source::from_vec(elements, shape)?.into())
    }

    /// A tensor of raw bytes in the machine's byte order, copied to aligned memory.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] if the shape needs another number of bytes, or a bool is neither 0 nor 1;
    /// [`Error::Memory`] if the allocation fails.
    pub fn from_bytes(bytes: &[u8], dtype: DType, shape: &[usize]) -> Result<Tensor> {
        if dtype == DType::Bool && bytes.iter().any(|byte| *byte > 1) {
            return Err(Error::Value("every byte of a bool array must be 0 or 1".into()));
        }
        Ok(Source::from_bytes(bytes, dtype, shape)?.into())
    }

    /// The description of the memory.
    #[doc(hidden)]
    pub fn description(&self) -> &View {
        &self.view
    }

    fn owner(&self) -> MutexGuard<'_, Owner> {
        self.owner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A tensor of memory that was written on a stream.
    #[doc(hidden)]
    pub fn written_on(source: Source, stream: WrittenOn) -> Tensor {
        Tensor { stream, ..source.into() }
    }

    /// The memory, read-only if other tensors of Rust share it, and the stream on which it was written.
    #[doc(hidden)]
    pub fn into_parts(self) -> (Source, WrittenOn) {
        let owner = self.owner.into_inner().unwrap_or_else(PoisonError::into_inner).unshare();
        let shared = matches!(owner, Owner::Shared(_)) && owner.is_rust();
        let frozen = shared && self.view.is_on_host();
        // SAFETY: the owner keeps the memory valid that the tensor's view describes.
        let mut source = unsafe { Source::new(self.view, owner) };
        source.restrict(frozen);
        (source, self.stream)
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.description().dtype()
    }

    /// The length of each axis.
    pub fn shape(&self) -> &[usize] {
        self.description().shape()
    }

    /// The bytes from one element to the next along each axis.
    pub fn strides(&self) -> &[isize] {
        self.description().strides()
    }

    /// The bytes of all elements.
    pub fn nbytes(&self) -> usize {
        self.description().nbytes()
    }

    /// The DLPack device that the memory belongs to.
    pub fn device(&self) -> DLDevice {
        self.description().device()
    }

    /// Returns whether writing is forbidden.
    pub fn is_read_only(&self) -> bool {
        self.description().is_read_only()
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&describe(self.description()))
    }
}

/// `Tensor float32[2, 3] on host`.
pub fn describe(view: &View) -> String {
    format!("Tensor {}{:?} on {}", view.dtype(), view.shape(), device_name(view.device()))
}

/// Checks that a tensor can have memory of this device.
///
/// # Errors
///
/// [`Error::Value`] for a device that is neither the host nor CUDA's.
pub fn expect_device(device: DLDevice) -> Result<()> {
    match is_host(device) || device.device_type == DLDeviceType::CUDA {
        true => Ok(()),
        false => Err(Error::Value(
            "an arraybridge.Tensor can only be on the host or on a CUDA device".into(),
        )),
    }
}

/// `host` or `cuda:0`.
pub fn device_name(device: DLDevice) -> String {
    if is_host(device) { "host".into() } else { format!("cuda:{}", device.device_id) }
}

impl From<Source> for Tensor {
    fn from(source: Source) -> Tensor {
        let (view, owner) = source.into_parts();
        Tensor { view, owner: Mutex::new(owner), stream: WrittenOn::default() }
    }
}

impl Clone for Tensor {
    /// A tensor of the same memory.
    fn clone(&self) -> Tensor {
        let owner = Mutex::new(self.owner().share());
        Tensor { view: self.view.clone(), owner, stream: self.stream.clone() }
    }
}

impl<T: Element, D: Dimension + 'static> From<Array<T, D>> for Tensor {
    fn from(array: Array<T, D>) -> Tensor {
        Source::from(array).into()
    }
}

/// Evaluates an expression with a view of a [`Tensor`]'s elements, whose type is bound to a name. The
/// elements must be integers, `float32` or `float64`.
///
/// ```
/// use arraybridge_tensor::prelude::{Result, Tensor, dispatch};
///
/// fn largest(tensor: &Tensor) -> Result<f64> {
///     dispatch!(tensor, T, |view| view.iter().fold(f64::MIN, |most, x: &T| most.max(*x as f64)))
/// }
/// let tensor = Tensor::from_vec(vec![3_u8, 200], &[2]).unwrap();
/// assert_eq!(largest(&tensor).unwrap(), 200.0);
/// ```
#[macro_export]
macro_rules! dispatch {
    ($tensor:expr, $type:ident, |$view:pat_param| $body:expr) => {
        $crate::dispatch!(@ $crate::prelude::Error, $tensor, $type, $view, $body)
    };
    // With an error that is made of this crate's.
    (@ $error:ty, $tensor:expr, $type:ident, $view:pat_param, $body:expr) => {
        $crate::dispatch!(@ $error, $tensor, $type, $view, $body, [
            Uint8 u8, Uint16 u16, Uint32 u32, Uint64 u64,
            Int8 i8, Int16 i16, Int32 i32, Int64 i64, Float32 f32, Float64 f64,
        ])
    };
    (@ $error:ty, $tensor:expr, $type:ident, $view:pat_param, $body:expr, [$($dtype:ident $rust:ty,)*]) => {{
        let tensor: &$crate::prelude::Tensor = $tensor;
        match tensor.dtype() {
            $(#[allow(clippy::unnecessary_cast, reason = "one body serves every type")]
            $crate::prelude::DType::$dtype => {
                #[allow(dead_code, reason = "not every body names the type")]
                type $type = $rust;
                tensor.view::<$rust>().map(|$view| $body).map_err(<$error>::from)
            })*
            other => ::core::result::Result::Err(<$error>::Type(::std::format!(
                "expected an array of integers, float32 or float64, not of {other}"
            ))),
        }
    }};
}

#[cfg(test)]
mod tests;
