//! Views of the caller's arrays in CUDA memory.

use std::fmt;
use std::marker::PhantomData;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{LaunchArgs, PushKernelArg};

use crate::interpreter::error::{Error, Result};
use arraybridge_host::layout;
use arraybridge_tensor::memory::element::Element;
use arraybridge_tensor::memory::view::{Dims, View};

/// The layout of a device array. Strides are in elements.
#[derive(Clone, Debug)]
pub struct Layout {
    pointer: CUdeviceptr,
    shape: Dims<usize>,
    strides: Dims<isize>,
    device: usize,
}

impl Layout {
    /// The layout of described memory of a CUDA device, checked for kernels.
    pub fn of<T: Element>(view: &View) -> Result<Layout> {
        if view.dtype() != T::DTYPE {
            let text = format!("expected {} elements, not {}", T::DTYPE, view.dtype());
            return Err(Error::Type(text));
        }
        // A kernel that reads a misaligned element makes the device unusable for the whole process.
        if !(view.is_empty() || (view.is_aligned() && view.has_element_strides())) {
            let text = "its elements are misaligned in device memory; pass a copy of it";
            return Err(Error::Value(text.into()));
        }
        let size = size_of::<T>() as isize;
        Ok(Layout {
            pointer: view.data() as usize as CUdeviceptr,
            shape: view.shape().into(),
            strides: view.strides().iter().map(|stride| stride / size).collect(),
            device: view.device().device_id as usize,
        })
    }
}

macro_rules! described {
    ($view:ident) => {
        impl<'a, T: Element> $view<'a, T> {
            pub fn new(layout: Layout) -> Self {
                $view { layout, memory: PhantomData }
            }

            /// Elements along each axis.
            pub fn shape(&self) -> &[usize] {
                &self.layout.shape
            }

            /// The distance between neighbours along each axis, in elements; negative if an axis runs
            /// backward, 0 if it repeats one element.
            pub fn strides(&self) -> &[isize] {
                &self.layout.strides
            }

            /// The number of axes.
            pub fn ndim(&self) -> usize {
                self.layout.shape.len()
            }

            /// The number of elements.
            pub fn len(&self) -> usize {
                self.layout.shape.iter().product()
            }

            /// Returns whether there are no elements.
            pub fn is_empty(&self) -> bool {
                self.layout.shape.contains(&0)
            }

            /// The device address of the first element; it may be 0 if there are no elements.
            pub fn pointer(&self) -> CUdeviceptr {
                self.layout.pointer
            }

            /// The index of the device.
            pub fn device(&self) -> usize {
                self.layout.device
            }

            /// Returns whether the elements are contiguous in row-major order.
            pub fn is_contiguous(&self) -> bool {
                layout::is_contiguous(&self.layout.shape, &self.layout.strides, 1)
            }

            /// The device address of contiguous elements in row-major order, for a kernel that does
            /// not take strides.
            ///
            /// # Errors
            ///
            /// [`Error::Value`] when the elements are not contiguous.
            pub fn contiguous(&self) -> Result<CUdeviceptr> {
                if self.is_contiguous() {
                    return Ok(self.layout.pointer);
                }
                Err(Error::Value(format!(
                    "an array of shape {:?} with strides {:?} is not contiguous in row-major order; \
                     pass a contiguous copy of it",
                    self.layout.shape.as_slice(),
                    self.layout.strides.as_slice(),
                )))
            }

            /// The shape of an array with `N` axes.
            ///
            /// # Errors
            ///
            /// [`Error::Type`] when the array has another number of axes.
            pub fn dim<const N: usize>(&self) -> Result<[usize; N]> {
                self.shape().try_into().map_err(|_| {
                    Error::Type(format!(
                        "expected a {N}-dimensional array, not a {}-dimensional one",
                        self.ndim()
                    ))
                })
            }
        }

        impl<T: Element> fmt::Debug for $view<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let (name, shape) = (stringify!($view), self.shape());
                write!(f, "{name} {}{shape:?} on cuda:{}", T::DTYPE, self.layout.device)
            }
        }
    };
}

/// An array in CUDA memory that a declared function reads, of element type `T` and of any rank and
/// strides.
///
/// Arrays in host memory, or on another device, are first converted to the framework that the function
/// is declared for, on the device of the call. Rust cannot read the elements. A kernel takes the
/// view as a pointer to the first of them:
///
/// ```no_run
/// use arraybridge_runtime::cudarc::driver::{CudaFunction, LaunchConfig, PushKernelArg};
/// use arraybridge_runtime::prelude::*;
///
/// /// Set when the extension module is imported.
/// static KERNEL: std::sync::OnceLock<CudaFunction> = std::sync::OnceLock::new();
///
/// #[memory_type(cupy)]
/// fn doubled(image: DeviceView<'_, f32>, stream: &Stream) -> Result<DeviceArray<f32>> {
///     image.contiguous()?;
///     let kernel = KERNEL.get().ok_or_else(|| Error::Cuda("there is no kernel".into()))?;
///     let n = image.len() as u32;
///     let mut result = DeviceArray::zeros(image.shape(), stream)?;
///     let mut launch = stream.launch_builder(kernel);
///     launch.arg(&image).arg(&mut result).arg(&n);
///     // SAFETY: the kernel reads and writes n elements, and takes these arguments.
///     unsafe { launch.launch(LaunchConfig::for_num_elems(n)) }?;
///     Ok(result)
/// }
/// ```
///
/// The memory is the caller's own where possible, and others may write to it later. What is put on the
/// call's stream before the function returns runs before that.
pub struct DeviceView<'a, T> {
    layout: Layout,
    memory: PhantomData<&'a T>,
}

/// The caller's own array in CUDA memory, which a declared function writes to.
///
/// It is never a copy, which would lose the write. An array that is on the host, on another device,
/// immutable or read-only is refused with `CopyRequiredError`; memory that is also another argument's,
/// with `AliasedArgumentError`. A kernel takes it by `&mut`, otherwise like a [`DeviceView`].
pub struct DeviceViewMut<'a, T> {
    layout: Layout,
    memory: PhantomData<&'a mut T>,
}

described!(DeviceView);
described!(DeviceViewMut);

// SAFETY: it pushes the address of the pointer, which lives as long as the borrowed view.
unsafe impl<'a, 'b: 'a, T: Element> PushKernelArg<&'b DeviceView<'_, T>> for LaunchArgs<'a> {
    #[inline(always)]
    fn arg(&mut self, view: &'b DeviceView<'_, T>) -> &mut Self {
        self.arg(&view.layout.pointer)
    }
}

// SAFETY: it pushes the address of the pointer, which lives as long as the borrowed view.
unsafe impl<'a, 'b: 'a, T: Element> PushKernelArg<&'b mut DeviceViewMut<'_, T>> for LaunchArgs<'a> {
    #[inline(always)]
    fn arg(&mut self, view: &'b mut DeviceViewMut<'_, T>) -> &mut Self {
        self.arg(&view.layout.pointer)
    }
}

#[cfg(test)]
mod tests;
