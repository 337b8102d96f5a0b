//! The description of an array's memory.

use std::ops::Range;

use dlpark::ffi::{DLDevice, DLDeviceType};

use arraybridge_host::dtype::DType;
use arraybridge_host::layout;
pub use arraybridge_host::layout::Dims;
use arraybridge_host::layout::{Strides, set_contiguous_strides};
use arraybridge_host::walk::StridedArray;

/// The place and the layout of an array's elements.
///
/// Like a raw pointer, a view keeps nothing alive and gives no access to the memory. A `Source` has a
/// view and the owner of its memory. Safe code cannot make a view of an arbitrary address:
///
/// ```compile_fail,E0451
/// use arraybridge_tensor::memory::view::View;
///
/// let view = View { data: 64 as *mut u8, ..View::default() };
/// ```
///
/// ```compile_fail,E0133
/// use arraybridge_runtime::__private::package::{DType, kernels::View};
///
/// let view = View::new(64 as *mut u8, DType::Uint8, [1][..].into(), [1][..].into());
/// ```
#[derive(Debug)]
pub struct View {
    data: *mut u8,
    dtype: DType,
    shape: Dims<usize>,
    strides: Dims<isize>,
    read_only: bool,
    swapped: bool,
    device: DLDevice,
}

// SAFETY: a view gives no access to the memory that it describes.
unsafe impl Send for View {}
// SAFETY: a view gives no access to the memory that it describes, and a shared one does not change.
unsafe impl Sync for View {}

impl Clone for View {
    fn clone(&self) -> View {
        // A small vector's own clone goes element by element.
        let (shape, strides) = (Dims::from_slice(&self.shape), Dims::from_slice(&self.strides));
        View { shape, strides, ..*self }
    }
}

impl Default for View {
    /// A view to be filled in place. It describes nothing yet.
    #[inline]
    fn default() -> View {
        View {
            data: std::ptr::null_mut(),
            dtype: DType::Bool,
            shape: Dims::new(),
            strides: Dims::new(),
            read_only: false,
            swapped: false,
            device: DLDevice::CPU,
        }
    }
}

impl View {
    /// A view of writable host memory in the machine's byte order. Strides are in bytes.
    ///
    /// # Safety
    ///
    /// `shape` and `strides` have the same length. Unless there are no elements, all of them lie in one
    /// allocation, and `data` is the address of the element at index zero.
    pub unsafe fn new(
        data: *mut u8,
        dtype: DType,
        shape: Dims<usize>,
        strides: Dims<isize>,
    ) -> View {
        debug_assert_eq!(shape.len(), strides.len());
        let (read_only, swapped, device) = (false, false, DLDevice::CPU);
        View { data, dtype, shape, strides, read_only, swapped, device }
    }

    /// Sets everything but the axes, for writable memory in the machine's byte order.
    ///
    /// # Safety
    ///
    /// With the axes from [`View::set_axes`], as for [`View::new`].
    #[inline]
    pub unsafe fn set_elements(&mut self, data: *mut u8, dtype: DType, device: DLDevice) {
        self.data = data;
        self.dtype = dtype;
        self.read_only = false;
        self.swapped = false;
        self.device = device;
    }

    /// Sets everything but the shape, for a contiguous array in writable host memory.
    ///
    /// # Safety
    ///
    /// With the shape as it is, as for [`View::new`].
    pub unsafe fn set_contiguous(&mut self, data: *mut u8, dtype: DType) {
        set_contiguous_strides(&mut self.strides, &self.shape, dtype.size());
        // SAFETY: the caller vouches for the elements.
        unsafe { self.set_elements(data, dtype, DLDevice::CPU) };
    }

    /// Sets the extents and the strides in bytes.
    ///
    /// # Safety
    ///
    /// With the elements from [`View::set_elements`], as for [`View::new`].
    #[inline]
    pub unsafe fn set_axes(
        &mut self,
        shape: impl ExactSizeIterator<Item = usize>,
        strides: impl ExactSizeIterator<Item = isize>,
    ) {
        debug_assert_eq!(shape.len(), strides.len());
        refill(&mut self.shape, shape);
        refill(&mut self.strides, strides);
    }

    /// Does what [`View::set_axes`] does, for numbers that are where they can be copied from.
    ///
    /// # Safety
    ///
    /// With the elements from [`View::set_elements`], as for [`View::new`].
    #[inline]
    pub unsafe fn copy_axes(&mut self, shape: &[usize], strides: &[isize]) {
        debug_assert_eq!(shape.len(), strides.len());
        (self.shape, self.strides) = (dims_of(shape), dims_of(strides));
    }

    /// The part in `start..stop` along an axis.
    ///
    /// # Panics
    ///
    /// Panics if there is no such part.
    pub fn part(&self, axis: usize, start: usize, stop: usize) -> View {
        assert!(start <= stop && stop <= self.shape[axis], "a part is inside its array");
        // Without elements there is no memory to stay in.
        let offset = self.strides[axis].wrapping_mul(start as isize);
        let (mut shape, strides) = (self.shape.clone(), self.strides.clone());
        shape[axis] = stop - start;
        View { data: self.data.wrapping_offset(offset), shape, strides, ..*self }
    }

    /// The part in a range along each of some axes.
    ///
    /// # Panics
    ///
    /// Panics if there is no such part.
    pub fn region(&self, ranges: impl IntoIterator<Item = (usize, Range<usize>)>) -> View {
        let part = |view: View, (axis, range): (usize, Range<usize>)| {
            view.part(axis, range.start, range.end)
        };
        ranges.into_iter().fold(self.clone(), part)
    }

    /// The part at an index of the first axis.
    ///
    /// # Panics
    ///
    /// Panics if there is no such index.
    pub fn slice(&self, index: usize) -> View {
        assert!(index < self.shape[0], "a slice is inside its array");
        // Without elements there is no memory to stay in.
        let data = self.data.wrapping_offset(self.strides[0].wrapping_mul(index as isize));
        View { data, shape: self.shape[1..].into(), strides: self.strides[1..].into(), ..*self }
    }

    /// Sets whether the bytes of each element are in the opposite of the machine's order.
    #[inline]
    pub fn set_swapped(&mut self, swapped: bool) {
        self.swapped = swapped;
    }

    /// Forbids writing if `read_only` is true. A view that is read-only stays so.
    #[inline]
    pub fn restrict(&mut self, read_only: bool) {
        self.read_only |= read_only;
    }

    /// The element at index zero. Not null unless there are no elements.
    #[inline]
    pub fn data(&self) -> *mut u8 {
        self.data
    }

    /// The element type.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The length of each axis.
    #[inline]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The bytes from one element to the next along each axis.
    #[inline]
    pub fn strides(&self) -> &[isize] {
        &self.strides
    }

    /// The number of axes.
    #[inline]
    pub fn ndim(&self) -> usize {
        self.shape.len()
    }

    /// Returns whether writing is forbidden.
    #[inline]
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Returns whether the bytes of each element are in the opposite of the machine's order.
    #[inline]
    pub fn is_swapped(&self) -> bool {
        self.swapped
    }

    /// The DLPack device that the memory belongs to.
    #[inline]
    pub fn device(&self) -> DLDevice {
        self.device
    }

    /// Returns whether the memory is the host's.
    #[inline]
    pub fn is_on_host(&self) -> bool {
        is_host(self.device)
    }

    /// The view with its memory on another device.
    pub fn on(self, device: DLDevice) -> View {
        View { device, ..self }
    }

    /// The number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns whether there are no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// The bytes of all elements.
    #[inline]
    pub fn nbytes(&self) -> usize {
        self.len() * self.dtype.size()
    }

    /// The elements in host memory, for a copy or a cast.
    pub fn elements(&self) -> StridedArray<'_> {
        let View { data, dtype, shape, strides, swapped, .. } = self;
        StridedArray { data: *data, shape, strides, dtype: *dtype, swapped: *swapped }
    }

    /// The narrowest class of layouts that the strides belong to.
    pub fn layout(&self) -> Strides {
        layout_of(&self.shape, &self.strides, self.dtype.size())
    }

    /// Returns whether the address and the strides are multiples of the element's size, or of half
    /// of it for complex numbers.
    pub fn is_aligned(&self) -> bool {
        let unit = self.dtype.part_size();
        is_multiple(self.data as usize, unit) && self.has_strides_of(unit)
    }

    /// Returns whether the machine can load each element from where it is.
    pub fn can_be_read(&self) -> bool {
        self.is_empty() || (!self.swapped && self.has_element_strides() && self.is_aligned())
    }

    /// Returns whether the address is a multiple of the element's size, also for complex numbers.
    pub fn starts_aligned(&self) -> bool {
        is_multiple(self.data as usize, self.dtype.size())
    }

    /// Returns whether each stride is a whole number of elements, as DLPack requires.
    pub fn has_element_strides(&self) -> bool {
        self.has_strides_of(self.dtype.size())
    }

    fn has_strides_of(&self, unit: usize) -> bool {
        let whole = |(s, n): (&isize, &usize)| *n <= 1 || is_multiple(s.unsigned_abs(), unit);
        self.strides.iter().zip(&self.shape).all(whole)
    }
}

/// Returns whether DLPack calls this host memory: plain, or pinned by CUDA or ROCm.
#[inline]
pub fn is_host(device: DLDevice) -> bool {
    let kinds = [DLDeviceType::CPU, DLDeviceType::CUDAHOST, DLDeviceType::ROCMHOST];
    kinds.contains(&device.device_type)
}

/// The most numbers that need no allocation.
const INLINE: usize = 6;

/// A few numbers are copied one by one: a call of `memcpy` costs more.
#[inline]
fn dims_of<T: Copy + Default>(numbers: &[T]) -> Dims<T> {
    if numbers.len() > INLINE {
        return Dims::from_slice(numbers);
    }
    let mut room = [T::default(); INLINE];
    room.iter_mut().zip(numbers).for_each(|(place, number)| *place = *number);
    Dims::from_buf_and_len(room, numbers.len())
}

/// Replaces the numbers in `dims`. The capacity is checked once, and not for each number.
#[inline]
fn refill<T>(dims: &mut Dims<T>, numbers: impl ExactSizeIterator<Item = T>) {
    let len = numbers.len();
    dims.clear();
    dims.reserve(len);
    let first = dims.as_mut_ptr();
    let mut count = 0;
    for number in numbers.take(len) {
        // SAFETY: `count` is below `len`, and there is room for `len` numbers.
        unsafe { first.add(count).write(number) };
        count += 1;
    }
    // SAFETY: the first `count` numbers were written.
    unsafe { dims.set_len(count) };
}

/// Returns whether a number is a multiple of a power of two, computed without a division.
fn is_multiple(number: usize, power: usize) -> bool {
    debug_assert!(power.is_power_of_two());
    number & (power - 1) == 0
}

/// The narrowest class of layouts that strides in bytes belong to.
pub fn layout_of(shape: &[usize], strides: &[isize], size: usize) -> Strides {
    if layout::is_contiguous(shape, strides, size) {
        Strides::Contiguous
    } else if layout::is_permuted_contiguous(shape, strides, size) {
        Strides::Permuted
    } else if layout::has_negative(shape, strides) {
        Strides::Any
    } else {
        Strides::Positive
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_only_view_stays_read_only() {
        let mut view = View::default();
        view.restrict(true);
        view.restrict(false);
        assert!(view.is_read_only());
    }
}
