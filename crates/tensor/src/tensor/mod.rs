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
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use ndarray::{Array2, Axis, array, s};

    use super::*;
    use crate::memory::source::counted::counted;

    #[test]
    fn a_vector_becomes_a_tensor_of_its_own_memory() {
        let elements = vec![1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0];
        let address = elements.as_ptr() as usize;
        let tensor = Tensor::from_vec(elements, &[3, 2]).unwrap();
        assert_eq!(tensor.description().data() as usize, address);
        assert_eq!(tensor.strides(), [8, 4]);
        assert_eq!(*tensor.view::<f32>().unwrap(), array![[1., 2.], [3., 4.], [5., 6.]].into_dyn());
    }

    #[test]
    fn a_tensor_becomes_an_array_of_its_memory_if_nobody_else_has_it() {
        let tensor = Tensor::from_vec(vec![1_u16, 2, 3, 4, 5, 6], &[3, 2]).unwrap();
        let (address, clone) = (tensor.description().data() as usize, tensor.clone());
        let copied = clone.try_into_array::<u16>().unwrap();
        assert_ne!(copied.as_ptr() as usize, address);
        let moved = tensor.try_into_array::<u16>().unwrap();
        assert_eq!((moved.as_ptr() as usize, &moved), (address, &copied));
        for array in [array![[1_i64, 2], [3, 4]].into_dyn(), array![1_i64, 2, 3].into_dyn()] {
            assert_eq!(Tensor::from(array.clone()).try_into_array::<i64>().unwrap(), array);
        }
        let transposed = array![[1.0_f32, 2.0], [3.0, 4.0]].reversed_axes();
        let address = transposed.as_ptr();
        let moved = Tensor::from(transposed.clone()).try_into_array::<f32>().unwrap();
        assert_eq!((&moved, moved.strides()), (&transposed.clone().into_dyn(), &[1, 2][..]));
        assert_eq!(Tensor::from(transposed).try_into_array::<f32>().unwrap().as_ptr(), address);
        let bytes = Tensor::from_bytes(&[1, 0, 1], DType::Bool, &[3]).unwrap();
        assert!(bytes.clone().try_into_array::<u8>().is_err());
        assert_eq!(bytes.try_into_array::<bool>().unwrap(), array![true, false, true].into_dyn());
    }

    #[test]
    fn a_shape_that_does_not_fit_is_an_error() {
        assert!(Tensor::from_vec(vec![0_u8; 5], &[2, 3]).is_err());
        assert!(Tensor::from_vec(vec![0_u8; 0], &[usize::MAX, 2]).is_err());
        assert!(Tensor::from_bytes(&[0; 7], DType::Uint16, &[3]).is_err());
        assert!(Tensor::from_bytes(&[2], DType::Bool, &[1]).is_err());
    }

    #[test]
    fn a_shape_that_ndarray_cannot_have_is_an_error() {
        for shape in [[0, 1 << 62, 4], [1 << 62, 0, 4], [1 << 62, 4, 0]] {
            let tensor = Tensor::from_vec(Vec::<u8>::new(), &shape).unwrap();
            let error = tensor.view::<u8>().unwrap_err().to_string();
            assert_eq!(error, "the shape is larger than the address space");
        }
        assert!(Tensor::from_vec(Vec::<u8>::new(), &[0, 1 << 62]).unwrap().view::<u8>().is_ok());
    }

    #[test]
    fn an_array_keeps_its_strides_whatever_they_are() {
        let array = Array2::from_shape_fn((4, 6), |(y, x)| (10 * y + x) as i32);
        let mut strided = array.clone().slice_move(s![1..;2, ..;3]);
        strided.invert_axis(Axis(1));
        let (transposed, expected) = (array.clone().reversed_axes(), strided.clone().into_dyn());
        assert_eq!(*Tensor::from(strided).view::<i32>().unwrap(), expected);
        let tensor = Tensor::from(transposed);
        assert_eq!(tensor.strides(), [4, 24]);
        assert_eq!(*tensor.view::<i32>().unwrap(), array.t().into_dyn());
    }

    #[test]
    fn another_element_type_is_an_error_that_names_both() {
        let error = Tensor::from_vec(vec![0_u8], &[1]).unwrap().view::<f32>().unwrap_err();
        let text = error.to_string();
        assert!(text.contains("float32") && text.contains("uint8"), "{text}");
    }

    #[test]
    fn the_memory_is_freed_once() {
        let drops = Arc::new(AtomicUsize::new(0));
        let tensor = Tensor::from(counted(&drops));
        let clone = tensor.clone();
        std::thread::spawn(move || drop(tensor)).join().unwrap();
        assert_eq!(drops.load(Ordering::SeqCst), 0);
        drop(clone);
        assert_eq!(drops.load(Ordering::SeqCst), 1);
    }

    /// ThreadSanitizer sees the race if the memory is freed while another thread reads it.
    #[test]
    fn clones_are_read_and_dropped_on_any_thread() {
        let drops = Arc::new(AtomicUsize::new(0));
        let tensor = Tensor::from(counted(&drops));
        let total = |tensor: Tensor| tensor.view::<u8>().unwrap().iter().count();
        let len = total(tensor.clone());
        std::thread::scope(|scope| {
            for _ in 0..8 {
                let tensor = tensor.clone();
                scope.spawn(move || assert_eq!(total(tensor.clone()), len));
            }
            drop(tensor);
        });
        assert_eq!(drops.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_clone_shares_the_memory_which_is_then_read_only_for_others() {
        let tensor = Tensor::from_vec(vec![1_u8, 2], &[2]).unwrap();
        let address = tensor.description().data();
        let (first, second) = (tensor.clone(), tensor.clone().clone());
        assert_eq!(*second.view::<u8>().unwrap(), array![1, 2].into_dyn());
        let shared = first.into_parts().0;
        assert_eq!(shared.view().data(), address);
        assert!(shared.view().is_read_only());
        drop((shared, second));
        let last = tensor.into_parts().0;
        assert!(!last.view().is_read_only() && matches!(last.owner(), Owner::Value(_)));
    }
}
