//! Typed views of described host memory.

use ndarray::{ArrayViewD, ArrayViewMutD, Axis, IxDyn, ShapeBuilder};

use crate::device;
use crate::element::Element;
use crate::error::{Error, Result};
use crate::host::layout;
use crate::spec::DType;
use crate::view::{Dims, View};

/// What a typed view is made of: ndarray has no negative strides to construct an array with, so
/// those axes are turned round.
pub struct HostView<T> {
    data: *mut T,
    shape: Dims<usize>,
    strides: Dims<usize>,
    turned: Dims<usize>,
}

/// Checks described memory and takes it apart.
///
/// # Errors
///
/// [`Error::Type`] for another element type, for memory on a device, and for memory that Rust
/// cannot look at in place: of the other byte order, misaligned, or bools that are none.
pub(crate) fn parts<T: Element>(view: &View) -> Result<HostView<T>> {
    let wanted = T::DTYPE;
    if view.dtype != wanted {
        return Err(Error::Type(format!("expected {wanted} elements, not {}", view.dtype)));
    }
    if !device::is_host(view.device) {
        return Err(Error::Type("expected host memory, not a device's".into()));
    }
    if !view.is_empty() && (view.swapped || !fits::<T>(view)) {
        return Err(Error::Type(format!(
            "the {wanted} elements are misaligned or of the other byte order"
        )));
    }
    if wanted == DType::Bool && !holds_bools(view) {
        return Err(Error::Type("the bool array holds bytes that are neither 0 nor 1".into()));
    }
    let size = size_of::<T>() as isize;
    let mut data = view.data.cast::<T>();
    if view.is_empty() {
        data = std::ptr::NonNull::dangling().as_ptr();
    }
    let mut turned = Dims::new();
    let mut strides = Dims::new();
    for (axis, (n, stride)) in view.shape.iter().zip(&view.strides).enumerate() {
        let step = if *n <= 1 || view.is_empty() { 0 } else { stride / size };
        if step < 0 {
            turned.push(axis);
            data = data.wrapping_offset(step * (*n as isize - 1));
        }
        strides.push(step.unsigned_abs());
    }
    Ok(HostView { data, shape: view.shape.clone(), strides, turned })
}

/// Whether each element lies where Rust needs it.
fn fits<T>(view: &View) -> bool {
    (view.data as usize).is_multiple_of(align_of::<T>()) && view.has_element_strides()
}

/// Whether every byte is a Rust `bool`.
fn holds_bools(view: &View) -> bool {
    if view.is_empty() {
        return true;
    }
    let Some((low, high)) = layout::extent(&view.shape, &view.strides, 1) else { return false };
    let bytes = (high - low) as usize;
    if bytes == view.len() {
        let first = view.data.wrapping_offset(low);
        // SAFETY: the elements fill this range, and their owner keeps it alive.
        return unsafe { std::slice::from_raw_parts(first, bytes) }.iter().all(|byte| *byte <= 1);
    }
    let view = View { dtype: DType::Uint8, ..view.clone() };
    // SAFETY: the memory is described by the view and alive, and every byte is a `u8`.
    parts::<u8>(&view)
        .map(|parts| unsafe { parts.array() }.iter().all(|byte| *byte <= 1))
        .unwrap_or(false)
}

impl<T: Element> HostView<T> {
    /// The array.
    ///
    /// # Safety
    ///
    /// The memory that was described stays alive and unwritten for `'a`.
    pub unsafe fn array<'a>(&self) -> ArrayViewD<'a, T> {
        let shape = IxDyn(&self.shape).strides(IxDyn(&self.strides));
        // SAFETY: by the contract, and by the checks of `parts`.
        let mut array = unsafe { ArrayViewD::from_shape_ptr(shape, self.data) };
        self.turned.iter().for_each(|axis| array.invert_axis(Axis(*axis)));
        array
    }

    /// The array, to be written to.
    ///
    /// # Safety
    ///
    /// The memory that was described stays alive for `'a`, may be written to, no two elements
    /// share bytes, and nobody else reads or writes it meanwhile.
    pub unsafe fn array_mut<'a>(&self) -> ArrayViewMutD<'a, T> {
        let shape = IxDyn(&self.shape).strides(IxDyn(&self.strides));
        // SAFETY: by the contract, and by the checks of `parts`.
        let mut array = unsafe { ArrayViewMutD::from_shape_ptr(shape, self.data) };
        self.turned.iter().for_each(|axis| array.invert_axis(Axis(*axis)));
        array
    }
}

/// The elements of described memory.
///
/// # Errors
///
/// As [`parts`].
pub(super) fn view<T: Element>(view: &View) -> Result<ArrayViewD<'_, T>> {
    // SAFETY: the tensor that holds the view keeps the memory alive while it is borrowed.
    parts(view).map(|parts| unsafe { parts.array() })
}
