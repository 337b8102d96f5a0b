//! Tensors of cudarc's slices of CUDA memory.

use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::{CudaSlice, DevicePtr};
use dlpark::ffi::{DLDevice, DLDeviceType};

use super::Tensor;
use crate::binding::wait;
use crate::cuda::driver::{SharedStream, checked};
use crate::error::Result;
use crate::memory::element::Element;
use crate::memory::source::{Owner, Source, expect_len};
use crate::memory::view::View;
use arraybridge_host::layout::contiguous_strides;

/// Device memory. The slice frees it on the stream on which it was allocated, as CuPy and torch do.
/// [`AfterDevice`](super::streams::AfterDevice) is for consumers on other streams.
struct DeviceMemory<T: Element>(ManuallyDrop<CudaSlice<T>>);

impl<T: Element> Drop for DeviceMemory<T> {
    fn drop(&mut self) {
        let waits = !self.0.context().has_async_alloc();
        let free = || {
            // The handle of the legacy default stream stands for that of the current context. After a failure
            // there is nothing else to try.
            let bound = self.0.context().bind_to_thread();
            // SAFETY: the slice is dropped once, here.
            unsafe { ManuallyDrop::drop(&mut self.0) };
            bound
        };
        // Without an allocator in the order of streams, the slice waits for its stream.
        let _ = if waits { wait(|| checked(free)) } else { checked(free) };
    }
}

impl Tensor {
    /// A tensor of device memory, in row-major order, without a copy. Consumers wait for the work on the
    /// slice's stream.
    ///
    /// # Errors
    ///
    /// [`Error::Value`](crate::error::Error::Value) if the shape has another number of elements than the slice.
    pub fn from_cuda<T: Element>(slice: CudaSlice<T>, shape: &[usize]) -> Result<Tensor> {
        expect_len(shape, T::DTYPE, slice.len())?;
        let stream = slice.stream().clone();
        // This makes the slice's stream wait for writes on other streams.
        let data = slice.device_ptr(&stream).0 as usize as *mut u8;
        let index = stream.context().ordinal() as i32;
        let owner = Owner::Value(Box::new(DeviceMemory(ManuallyDrop::new(slice))));
        let device = DLDevice { device_type: DLDeviceType::CUDA, device_id: index };
        let strides = contiguous_strides(shape, size_of::<T>());
        // SAFETY: the slice has the elements of the shape, and the owner has the slice.
        let source = unsafe {
            Source::new(View::new(data, T::DTYPE, shape.into(), strides).on(device), owner)
        };
        Ok(Tensor::written_on(source, Some(stream)))
    }

    /// The same tensor, of memory that is used on a stream: the next consumer waits for that stream.
    pub fn used_on(mut self, stream: &SharedStream) -> Tensor {
        if self.description().is_on_host() {
            return self;
        }
        // The stream is named to whoever the memory is handed to, in whichever module that is.
        let owner = self.owner.into_inner().unwrap_or_else(PoisonError::into_inner);
        self.owner = Mutex::new(Owner::Value(Box::new((owner, Arc::clone(stream)))));
        self.stream = Some(Arc::clone(stream));
        self
    }
}
