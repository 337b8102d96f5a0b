//! An n-dimensional array that a Rust function made: owned memory, described as DLPack describes it.

mod class;
mod cuda;
mod exchange;
mod rust;
mod view;

use std::fmt;
use std::sync::Arc;

use dlpark::ffi::DLDevice;
use ndarray::{Array, Dimension};
use pyo3::prelude::*;

use crate::c_api;
use crate::convert::{self, Opened, Request};
use crate::cuda::Stream;
use crate::cuda::driver::LEGACY_STREAM;
use crate::framework::device;
use crate::framework::spec::Framework;
use crate::host::buffer::HostBuffer;
use crate::host::dtype::DType;
use crate::host::layout;
use crate::host::layout::contiguous_strides;
use crate::interpreter::error::{Error, Result};
use crate::memory::element::Element;
use crate::memory::view::{Owner, Source, View};

pub use class::{PyTensor, add_class};
pub(crate) use rust::{apart, raw, raw_mut};
pub use view::TensorView;

/// An owned n-dimensional array, on the host or on a CUDA device, whose element type is known at
/// run time. Its memory is freed once, by whoever holds it last: Rust, Python or a framework.
///
/// ```
/// use arraybridge_runtime::prelude::Tensor;
///
/// let tensor = Tensor::from_vec(vec![1_u16, 2, 3, 4, 5, 6], &[2, 3]).unwrap();
/// assert_eq!(tensor.shape(), [2, 3]);
/// assert_eq!(tensor.view::<u16>().unwrap()[[1, 0]], 4);
/// assert!(tensor.view::<f32>().is_err());
/// ```
pub struct Tensor {
    view: View,
    owner: Owner,
    /// The stream that the memory was written on; the legacy default stream without one.
    stream: Option<cuda::Stream>,
}

// SAFETY: the view describes memory that the owner, which is `Send`, keeps alive.
unsafe impl Send for Tensor {}
// SAFETY: a shared reference gives the description and reads the memory; the owner is not touched.
unsafe impl Sync for Tensor {}

impl Tensor {
    /// A tensor of the elements of a vector, in row-major order, without a copy.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] when the shape has another number of elements than the vector.
    pub fn from_vec<T: Element>(mut elements: Vec<T>, shape: &[usize]) -> Result<Tensor> {
        expect(shape, T::DTYPE, elements.len())?;
        let data = elements.as_mut_ptr().cast();
        Ok(Tensor::contiguous(data, T::DTYPE, shape, Owner::Value(Box::new(elements))))
    }

    /// A tensor of raw bytes in the machine's byte order, copied to aligned memory.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] when the shape does not have as many bytes, or when a byte of a bool is
    /// neither 0 nor 1; `MemoryError` when there is no memory.
    pub fn from_bytes(bytes: &[u8], dtype: DType, shape: &[usize]) -> Result<Tensor> {
        if layout::contiguous_bytes(shape, dtype.size()) != Some(bytes.len()) {
            let text = format!("{} bytes are no {dtype} array of shape {shape:?}", bytes.len());
            return Err(Error::Value(text));
        }
        if dtype == DType::Bool && bytes.iter().any(|byte| *byte > 1) {
            return Err(Error::Value("a bool is a byte of 0 or 1".into()));
        }
        let mut buffer = HostBuffer::new(bytes.len()).map_err(crate::memory::cast::no_memory)?;
        let data = buffer.as_mut_ptr();
        // SAFETY: the buffer is new and has as many bytes.
        unsafe { data.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(Tensor::contiguous(data, dtype, shape, Owner::Buffer(buffer)))
    }

    fn contiguous(data: *mut u8, dtype: DType, shape: &[usize], owner: Owner) -> Tensor {
        let view = View {
            data,
            dtype,
            strides: contiguous_strides(shape, dtype.size()),
            shape: shape.into(),
            read_only: false,
            swapped: false,
            device: DLDevice::CPU,
        };
        Tensor { view, owner, stream: None }
    }

    /// A tensor of memory that was opened. What DLPack cannot describe is copied.
    ///
    /// # Errors
    ///
    /// `MemoryError` when there is no memory for a copy.
    pub(crate) fn from_opened(py: Python<'_>, opened: Opened) -> Result<Tensor> {
        // The memory is claimed while it is read, toward all modules.
        c_api::join_if_present(py);
        let view = &opened.source.view;
        let readable = !device::is_host(view.device) || view.can_be_read();
        let opened = if readable { opened } else { convert::fresh(py, opened, None)? };
        let Source { view, owner } = opened.source;
        Ok(Tensor { view, owner, stream: None })
    }

    /// As [`from_opened`](Tensor::from_opened), of memory that a stream's work comes after, and whose
    /// next consumer comes after that stream.
    pub(crate) fn from_opened_on(
        py: Python<'_>,
        opened: Opened,
        stream: &Stream,
    ) -> Result<Tensor> {
        let mut tensor = Tensor::from_opened(py, opened)?;
        tensor.stream = (!device::is_host(tensor.view.device)).then(|| Arc::clone(stream));
        Ok(tensor)
    }

    /// The tensor of any framework's array, or of any object that hands its memory out by DLPack,
    /// without a copy where the memory can be described.
    ///
    /// # Errors
    ///
    /// [`Error::Conversion`] says why the object cannot be read.
    pub fn from_py(data: &Bound<'_, PyAny>) -> Result<Tensor> {
        Tensor::from_opened(data.py(), convert::open_to_hold(data, LEGACY_STREAM)?)
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.view.dtype
    }

    /// Elements along each axis.
    pub fn shape(&self) -> &[usize] {
        &self.view.shape
    }

    /// Bytes from one element to the next along each axis.
    pub fn strides(&self) -> &[isize] {
        &self.view.strides
    }

    /// The bytes of all elements.
    pub fn nbytes(&self) -> usize {
        self.view.nbytes()
    }

    /// Where the memory is.
    pub fn device(&self) -> DLDevice {
        self.view.device
    }

    /// Whether the memory must not be written to.
    pub fn is_read_only(&self) -> bool {
        self.view.read_only
    }

    /// The tensor as an array of a framework.
    ///
    /// # Errors
    ///
    /// As [`convert_to`](crate::convert::convert_to).
    pub fn into_framework<'py>(
        self,
        py: Python<'py>,
        target: &'static Framework,
        request: &Request,
    ) -> Result<Bound<'py, PyAny>> {
        if !device::is_host(self.view.device) {
            return convert::convert_to(&class::into_object(py, self)?, target, request);
        }
        let private = !self.view.read_only && self.is_sole_owner();
        let source = Source { view: self.view, owner: self.owner };
        convert::deliver(py, Opened { source, private }, target, request)
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&describe(&self.view))
    }
}

/// `Tensor float32[2, 3] on host`.
fn describe(view: &View) -> String {
    format!("Tensor {}{:?} on {}", view.dtype, view.shape.as_slice(), place(view.device))
}

/// `host` or `cuda:0`.
fn place(device: DLDevice) -> String {
    if device::is_host(device) { "host".into() } else { format!("cuda:{}", device.device_id) }
}

/// Checks that a shape has this number of elements.
pub(crate) fn expect(shape: &[usize], dtype: DType, len: usize) -> Result<()> {
    let wanted = layout::contiguous_bytes(shape, dtype.size());
    if wanted != len.checked_mul(dtype.size()) || wanted.is_none() {
        let text = format!("{len} elements are no {dtype} array of shape {shape:?}");
        return Err(Error::Value(text));
    }
    Ok(())
}

impl<T: Element, D: Dimension + 'static> From<Array<T, D>> for Tensor {
    fn from(mut array: Array<T, D>) -> Tensor {
        let size = size_of::<T>() as isize;
        let view = View {
            data: array.as_mut_ptr().cast(),
            dtype: T::DTYPE,
            shape: array.shape().into(),
            strides: array.strides().iter().map(|stride| stride * size).collect(),
            read_only: false,
            swapped: false,
            device: DLDevice::CPU,
        };
        Tensor { view, owner: Owner::Value(Box::new(array)), stream: None }
    }
}

/// Runs an expression with a [`Tensor`]'s elements as a view of their own type; the type is bound
/// to a name. What is neither a real number nor an integer is an error.
///
/// ```
/// use arraybridge_runtime::prelude::{Result, Tensor, dispatch};
///
/// fn largest(tensor: &Tensor) -> Result<f64> {
///     dispatch!(tensor, T, |view| view.iter().fold(f64::MIN, |most, x: &T| most.max(*x as f64)))
/// }
/// let tensor = Tensor::from_vec(vec![3_u8, 200], &[2]).unwrap();
/// assert_eq!(largest(&tensor).unwrap(), 200.0);
/// ```
#[macro_export]
macro_rules! dispatch {
    ($tensor:expr, $type:ident, |$view:pat_param| $body:expr) => {{
        $crate::dispatch!(@ $tensor, $type, $view, $body, [
            Uint8 u8, Uint16 u16, Uint32 u32, Uint64 u64,
            Int8 i8, Int16 i16, Int32 i32, Int64 i64, Float32 f32, Float64 f64,
        ])
    }};
    (@ $tensor:expr, $type:ident, $view:pat_param, $body:expr, [$($dtype:ident $rust:ty,)*]) => {{
        let tensor: &$crate::prelude::Tensor = $tensor;
        match tensor.dtype() {
            $(#[allow(clippy::unnecessary_cast, reason = "one body serves every type")]
            $crate::prelude::DType::$dtype => {
                #[allow(dead_code, reason = "not every body names the type")]
                type $type = $rust;
                tensor.view::<$rust>().map(|$view| $body)
            })*
            other => ::core::result::Result::Err($crate::prelude::Error::Type(::std::format!(
                "an array of integers or of float32 or float64 is needed, not of {other}"
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

    #[test]
    fn a_vector_becomes_a_tensor_of_its_own_memory() {
        let elements = vec![1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0];
        let address = elements.as_ptr() as usize;
        let tensor = Tensor::from_vec(elements, &[3, 2]).unwrap();
        assert_eq!(tensor.view.data as usize, address);
        assert_eq!(tensor.strides(), [8, 4]);
        assert_eq!(*tensor.view::<f32>().unwrap(), array![[1., 2.], [3., 4.], [5., 6.]].into_dyn());
    }

    #[test]
    fn a_shape_that_does_not_fit_is_an_error() {
        assert!(Tensor::from_vec(vec![0_u8; 5], &[2, 3]).is_err());
        assert!(Tensor::from_vec(vec![0_u8; 0], &[usize::MAX, 2]).is_err());
        assert!(Tensor::from_bytes(&[0; 7], DType::Uint16, &[3]).is_err());
        assert!(Tensor::from_bytes(&[2], DType::Bool, &[1]).is_err());
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
        struct Counted(Arc<AtomicUsize>);
        impl Drop for Counted {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        let drops = Arc::new(AtomicUsize::new(0));
        let mut tensor = Tensor::from_vec(vec![0_u8; 4], &[4]).unwrap();
        let owner = std::mem::replace(&mut tensor.owner, Owner::Value(Box::new(())));
        tensor.owner = Owner::Value(Box::new((owner, Counted(drops.clone()))));
        std::thread::spawn(move || drop(tensor)).join().unwrap();
        assert_eq!(drops.load(Ordering::SeqCst), 1);
    }
}
