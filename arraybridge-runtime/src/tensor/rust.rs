//! Typed views of described host memory.

use ndarray::{Axis, Dimension, IxDyn, RawArrayView, RawArrayViewMut, ShapeBuilder, StrideShape};

use crate::framework::device;
use crate::host::dtype::DType;
use crate::host::layout;
use crate::interpreter::error::{Error, Result};
use crate::memory::element::Element;
use crate::memory::view::{Dims, View};

/// Described memory as `ndarray` sees it. Whoever dereferences it keeps the memory alive, and
/// unwritten by others.
///
/// # Errors
///
/// [`Error::Type`] for another rank or element type, for memory on a device, and for memory that
/// Rust cannot look at in place: of the other byte order, misaligned, or bools that are none.
pub(crate) fn raw<T: Element, D: Dimension>(view: &View) -> Result<RawArrayView<T, D>> {
    let Laid { shape, data, turned } = laid_out::<T, D>(view)?;
    // SAFETY: the description is of memory that was allocated as a whole, so that no offset
    // overflows; nothing is dereferenced here.
    let mut array = unsafe { RawArrayView::from_shape_ptr(shape, data) };
    if turned {
        backward(view).for_each(|axis| array.invert_axis(axis));
    }
    Ok(array)
}

/// The same for memory that is written to.
///
/// # Errors
///
/// As [`raw`], and [`Error::Value`] where elements share memory with one another.
pub(crate) fn raw_mut<T: Element, D: Dimension>(view: &View) -> Result<RawArrayViewMut<T, D>> {
    let Laid { shape, data, turned } = laid_out::<T, D>(view)?;
    apart(view)?;
    // SAFETY: as above.
    let mut array = unsafe { RawArrayViewMut::from_shape_ptr(shape, data) };
    if turned {
        backward(view).for_each(|axis| array.invert_axis(axis));
    }
    Ok(array)
}

/// An array that begins at its lowest address.
struct Laid<T, D> {
    shape: StrideShape<D>,
    data: *mut T,
    /// Whether axes that run backward were turned round: ndarray has no negative strides to make an
    /// array with.
    turned: bool,
}

#[inline]
fn laid_out<T: Element, D: Dimension>(view: &View) -> Result<Laid<T, D>> {
    let wanted = T::DTYPE;
    if view.dtype != wanted {
        return Err(Error::Type(format!("expected {wanted} elements, not {}", view.dtype)));
    }
    if !device::is_host(view.device) {
        return Err(Error::Type("expected host memory, not a device's".into()));
    }
    let ndim = view.shape.len();
    if let Some(rank) = D::NDIM.filter(|rank| *rank != ndim) {
        return Err(Error::Type(format!("expected {rank} axes, not {ndim}")));
    }
    let empty = view.is_empty();
    let size = size_of::<T>() as isize;
    let mut data = view.data.cast::<T>();
    let mut fits = !view.swapped && data.is_aligned();
    let mut turned = false;
    let (mut shape, mut strides) = (D::zeros(ndim), D::zeros(ndim));
    for (axis, (n, stride)) in view.shape.iter().zip(&view.strides).enumerate() {
        shape[axis] = *n;
        if *n <= 1 || empty {
            continue;
        }
        fits &= stride % size == 0;
        let step = stride / size;
        strides[axis] = step.unsigned_abs();
        if step < 0 {
            data = data.wrapping_offset(step * (*n as isize - 1));
            turned = true;
        }
    }
    if empty {
        data = std::ptr::NonNull::dangling().as_ptr();
    } else if !fits {
        let text = format!("the {wanted} elements are misaligned or of the other byte order");
        return Err(Error::Type(text));
    }
    if wanted == DType::Bool && !holds_bools(view) {
        return Err(not_bools());
    }
    Ok(Laid { shape: shape.strides(strides), data, turned })
}

/// The axes whose elements lie in the other order.
fn backward(view: &View) -> impl Iterator<Item = Axis> {
    let axes = if view.is_empty() { 0 } else { view.shape.len() };
    (0..axes).filter(|axis| view.strides[*axis] < 0 && view.shape[*axis] > 1).map(Axis)
}

/// Checks that an array can be written to.
///
/// # Errors
///
/// [`Error::Value`] where elements share memory with one another.
pub(crate) fn apart(view: &View) -> Result<()> {
    if is_injective(view) {
        return Ok(());
    }
    let text = "elements share memory with one another, so it cannot be written to";
    Err(Error::Value(text.into()))
}

/// Whether no two elements share bytes, as far as that can be seen from the strides: each axis
/// steps over what the axes inside it cover.
fn is_injective(view: &View) -> bool {
    let axes = view.shape.iter().zip(&view.strides).filter(|(n, _)| **n > 1);
    let mut axes: Dims<(usize, usize)> = axes.map(|(n, s)| (s.unsigned_abs(), *n)).collect();
    axes.sort_unstable();
    let mut covered = view.dtype.size();
    axes.iter().all(|(stride, n)| {
        let apart = *stride >= covered;
        covered = covered.saturating_add(stride.saturating_mul(n - 1));
        apart
    })
}

pub(super) fn not_bools() -> Error {
    Error::Type("the bool array holds bytes that are neither 0 nor 1".into())
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
    let Ok(array) = raw::<u8, IxDyn>(&view) else { return false };
    // SAFETY: the memory is described by the view and alive, and every byte is a `u8`.
    unsafe { array.deref_into_view() }.iter().all(|byte| *byte <= 1)
}
