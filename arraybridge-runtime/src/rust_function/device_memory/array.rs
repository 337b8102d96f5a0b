//! Arrays in CUDA memory that a declared function returns.

use std::fmt;

use cudarc::driver::{CudaSlice, DevicePtr, DriverError, LaunchArgs, PushKernelArg, result, sys};

use crate::cuda::Stream;
use crate::interpreter::error::{Error, Result};
use crate::tensor::Tensor;
use arraybridge_host::layout;
use arraybridge_tensor::cuda::driver::checked;
use arraybridge_tensor::memory::element::Element;
use arraybridge_tensor::memory::source::expect_len;
use arraybridge_tensor::memory::view::Dims;

/// An owned array in CUDA memory, in row-major order, which a declared function returns.
///
/// Its memory is allocated on a stream and freed in the order of that stream. A kernel takes it as a
/// pointer to the first element: `&array` to read, `&mut array` to write.
pub struct DeviceArray<T> {
    slice: CudaSlice<T>,
    shape: Dims<usize>,
}

impl<T: Element> DeviceArray<T> {
    /// An array of zeros.
    ///
    /// # Errors
    ///
    /// [`Error::DeviceMemory`] when the device runs out of memory, [`Error::Value`] for a shape that
    /// is too large for any memory, [`Error::Cuda`] for any other failure of the driver.
    pub fn zeros(shape: &[usize], stream: &Stream) -> Result<DeviceArray<T>> {
        DeviceArray::new(shape, stream, |pointer, bytes| {
            // SAFETY: `new` allocated this many bytes at the pointer, on this stream.
            unsafe { result::memset_d8_async(pointer, 0, bytes, stream.cu_stream()) }
        })
    }

    /// An array whose elements have no values yet.
    ///
    /// # Errors
    ///
    /// The errors of [`zeros`](DeviceArray::zeros).
    ///
    /// # Safety
    ///
    /// Each element is written before it is read, here or by whoever gets the array.
    pub unsafe fn uninit(shape: &[usize], stream: &Stream) -> Result<DeviceArray<T>> {
        DeviceArray::new(shape, stream, |_, _| Ok(()))
    }

    /// An array of the elements of a slice, in row-major order.
    ///
    /// # Errors
    ///
    /// The errors of [`zeros`](DeviceArray::zeros), and [`Error::Value`] when the slice does not
    /// have as many elements as the shape.
    pub fn from_slice(elements: &[T], shape: &[usize], stream: &Stream) -> Result<DeviceArray<T>> {
        expect_len(shape, T::DTYPE, elements.len())?;
        DeviceArray::new(shape, stream, |pointer, bytes| {
            // SAFETY: the slice has this many bytes, and elements have no padding.
            let from = unsafe { std::slice::from_raw_parts(elements.as_ptr().cast::<u8>(), bytes) };
            // SAFETY: `new` allocated as many bytes at the pointer, on this stream.
            unsafe { result::memcpy_htod_async(pointer, from, stream.cu_stream()) }?;
            // The driver has read pageable memory by now, but may read pinned memory later.
            if is_known_to_cuda(from) { stream.synchronize() } else { Ok(()) }
        })
    }

    /// An array of cudarc's memory, in row-major order, without a copy.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] when the slice does not have as many elements as the shape.
    pub fn from_cuda(slice: CudaSlice<T>, shape: &[usize]) -> Result<DeviceArray<T>> {
        expect_len(shape, T::DTYPE, slice.len())?;
        Ok(DeviceArray { slice, shape: shape.into() })
    }

    /// New memory, which `fill` starts to write.
    fn new(
        shape: &[usize],
        stream: &Stream,
        fill: impl FnOnce(u64, usize) -> Result<(), DriverError>,
    ) -> Result<DeviceArray<T>> {
        let Some(bytes) = layout::contiguous_bytes(shape, size_of::<T>()) else {
            let text = format!("a {} array of shape {shape:?} is too large", T::DTYPE);
            return Err(Error::Value(text));
        };
        let made = checked(|| {
            // The driver refuses to allocate 0 bytes. Bytes are allocated rather than elements, since
            // cudarc allocates only element types that it knows.
            // SAFETY: the bytes are written before they are read, by `fill` or by the caller of
            // `uninit`, who promises it.
            let memory = unsafe { stream.alloc::<u8>(bytes.max(1)) }?.leak();
            // SAFETY: the memory was allocated on this stream and has room for the elements. It was
            // leaked, so that nobody else frees it.
            let slice = unsafe { stream.upgrade_device_ptr::<T>(memory, bytes / size_of::<T>()) };
            if bytes > 0 {
                fill(memory, bytes)?;
            }
            Ok(slice)
        });
        let slice = made.map_err(|error| match Error::from(error) {
            Error::DeviceMemory(text) => Error::DeviceMemory(format!(
                "{text}; a {} array of shape {shape:?} needs {bytes} bytes",
                T::DTYPE
            )),
            other => other,
        })?;
        Ok(DeviceArray { slice, shape: shape.into() })
    }

    /// Elements along each axis.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.slice.len()
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.slice.is_empty()
    }

    /// The device address of the first element.
    pub(super) fn pointer(&self) -> sys::CUdeviceptr {
        let stream = self.slice.stream();
        self.slice.device_ptr(stream).0
    }

    /// The memory, for cudarc's functions.
    pub fn slice(&self) -> &CudaSlice<T> {
        &self.slice
    }

    /// The memory, for cudarc's functions that write to it.
    pub fn slice_mut(&mut self) -> &mut CudaSlice<T> {
        &mut self.slice
    }
}

/// Returns whether the driver has allocated or pinned the memory.
fn is_known_to_cuda(bytes: &[u8]) -> bool {
    let mut kind = 0_u32;
    // SAFETY: the attribute has 32 bits, and any address may be asked about.
    let answer = unsafe {
        sys::cuPointerGetAttribute(
            (&raw mut kind).cast(),
            sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
            bytes.as_ptr() as sys::CUdeviceptr,
        )
    };
    answer == sys::CUresult::CUDA_SUCCESS
}

impl<T: Element> fmt::Debug for DeviceArray<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shape, index) = (self.shape.as_slice(), self.slice.ordinal());
        write!(f, "DeviceArray {}{shape:?} on cuda:{index}", T::DTYPE)
    }
}

impl<T: Element> From<DeviceArray<T>> for Tensor {
    fn from(array: DeviceArray<T>) -> Tensor {
        let DeviceArray { slice, shape } = array;
        Tensor::from_cuda(slice, &shape).expect("the shape has as many elements as the slice")
    }
}

// SAFETY: cudarc pushes the pointer, and orders the launch after what wrote the memory.
unsafe impl<'a, 'b: 'a, T: Element> PushKernelArg<&'b DeviceArray<T>> for LaunchArgs<'a> {
    #[inline(always)]
    fn arg(&mut self, array: &'b DeviceArray<T>) -> &mut Self {
        self.arg(&array.slice)
    }
}

// SAFETY: cudarc pushes the pointer, and orders the launch after what used the memory.
unsafe impl<'a, 'b: 'a, T: Element> PushKernelArg<&'b mut DeviceArray<T>> for LaunchArgs<'a> {
    #[inline(always)]
    fn arg(&mut self, array: &'b mut DeviceArray<T>) -> &mut Self {
        self.arg(&mut array.slice)
    }
}
