//! Host memory as typed `ndarray` views.

use ndarray::{Axis, Dimension, IxDyn, RawArrayView, RawArrayViewMut, ShapeBuilder, StrideShape};

use crate::error::{Error, Result};
use crate::memory::element::Element;
use crate::memory::view::{Dims, View};
use arraybridge_host::dtype::DType;
use arraybridge_host::layout;

/// Described memory as a raw view of `ndarray`. Nothing is read: bools have to be checked by
/// [`expect_bools`] before they are used.
///
/// # Errors
///
/// [`Error::Type`] for another rank or element type, for memory on a device, and for elements that Rust
/// cannot use in place: byte-swapped or misaligned.
pub fn raw<T: Element, D: Dimension>(view: &View) -> Result<RawArrayView<T, D>> {
    let RawParts { shape, data, inverted } = raw_parts::<T, D>(view)?;
    // SAFETY: a view's elements lie in one allocation, so that no offset overflows. Nothing is
    // dereferenced here.
    let mut array = unsafe { RawArrayView::from_shape_ptr(shape, data) };
    if inverted {
        negative_axes(view).for_each(|axis| array.invert_axis(axis));
    }
    Ok(array)
}

/// Does what [`raw`] does, for memory that is written to.
///
/// # Errors
///
/// The errors of [`raw`], and [`Error::Value`] if elements share memory with each other.
pub fn raw_mut<T: Element, D: Dimension>(view: &View) -> Result<RawArrayViewMut<T, D>> {
    let RawParts { shape, data, inverted } = raw_parts::<T, D>(view)?;
    expect_distinct(view)?;
    // SAFETY: a view's elements lie in one allocation, so that no offset overflows. Nothing is
    // dereferenced here.
    let mut array = unsafe { RawArrayViewMut::from_shape_ptr(shape, data) };
    if inverted {
        negative_axes(view).for_each(|axis| array.invert_axis(axis));
    }
    Ok(array)
}

/// The parts of a raw view. `ndarray` makes views of positive strides only, so axes with negative ones
/// are inverted and `data` is the lowest address.
struct RawParts<T, D> {
    shape: StrideShape<D>,
    data: *mut T,
    /// True if there are axes to invert again.
    inverted: bool,
}

#[inline]
fn raw_parts<T: Element, D: Dimension>(view: &View) -> Result<RawParts<T, D>> {
    if let Some(parts) = contiguous_parts(view) {
        return Ok(parts);
    }
    check_type::<T, D>(view)?;
    let (empty, size) = (view.is_empty(), size_of::<T>() as isize);
    let mut data = view.data().cast::<T>();
    let mut fits = !view.is_swapped() && data.is_aligned();
    let mut inverted = false;
    let (mut shape, mut strides) = (D::zeros(view.ndim()), D::zeros(view.ndim()));
    for (axis, (n, stride)) in view.shape().iter().zip(view.strides()).enumerate() {
        shape[axis] = *n;
        if *n <= 1 || empty {
            continue;
        }
        fits &= stride % size == 0;
        let step = stride / size;
        strides[axis] = step.unsigned_abs();
        if step < 0 {
            data = data.wrapping_offset(step * (*n as isize - 1));
            inverted = true;
        }
    }
    if empty {
        data = std::ptr::NonNull::dangling().as_ptr();
    } else if !fits {
        let text = format!("the {} elements are misaligned or byte-swapped", T::DTYPE);
        return Err(Error::Type(text));
    }
    // Strides of an empty array may be anything, and `ndarray` asserts that elements do not overlap.
    let shape = if empty { shape.into() } else { shape.strides(strides) };
    Ok(RawParts { shape, data, inverted })
}

/// The parts for elements in row-major order, as most arrays have them: `ndarray` knows their strides. `None` for all
/// others, and for what is refused.
#[inline]
fn contiguous_parts<T: Element, D: Dimension>(view: &View) -> Option<RawParts<T, D>> {
    let data = view.data().cast::<T>();
    let fits = view.dtype() == T::DTYPE
        && D::NDIM.is_none_or(|rank| rank == view.ndim())
        && data.is_aligned()
        && !view.is_swapped()
        && view.is_on_host();
    let bytes = layout::contiguous_end(view.shape(), view.strides(), size_of::<T>());
    if !fits || bytes.is_none_or(|bytes| isize::try_from(bytes).is_err()) {
        return None;
    }
    let mut shape = D::zeros(view.ndim());
    shape.slice_mut().iter_mut().zip(view.shape()).for_each(|(length, n)| *length = *n);
    Some(RawParts { shape: shape.into(), data, inverted: false })
}

/// Checks the element type, the rank, the size of the shape, and that the memory is the host's.
#[inline]
fn check_type<T: Element, D: Dimension>(view: &View) -> Result<()> {
    if view.dtype() != T::DTYPE {
        return Err(Error::Type(format!("expected {} elements, not {}", T::DTYPE, view.dtype())));
    }
    // Without elements, or with strides of zero, a shape can be larger than any memory.
    let count = view.shape().iter().fold(1_usize, |all, n| all.saturating_mul((*n).max(1)));
    if isize::try_from(count).is_err() {
        return Err(Error::Type("the shape is larger than the address space".into()));
    }
    if !view.is_on_host() {
        return Err(Error::Type("expected host memory, not that of a device".into()));
    }
    match D::NDIM.filter(|rank| *rank != view.ndim()) {
        Some(rank) => Err(Error::Type(format!("expected {rank} axes, not {}", view.ndim()))),
        None => Ok(()),
    }
}

/// The axes with negative strides.
fn negative_axes(view: &View) -> impl Iterator<Item = Axis> {
    let axes = if view.is_empty() { 0 } else { view.ndim() };
    (0..axes).filter(|axis| view.strides()[*axis] < 0 && view.shape()[*axis] > 1).map(Axis)
}

/// Checks that an array can be written to.
///
/// # Errors
///
/// [`Error::Value`] if elements share memory with each other.
pub fn expect_distinct(view: &View) -> Result<()> {
    let is_contiguous = layout::is_contiguous(view.shape(), view.strides(), view.dtype().size());
    if is_contiguous || is_injective(view) {
        return Ok(());
    }
    let text = "elements share memory with each other, so the array cannot be written to";
    Err(Error::Value(text.into()))
}

/// Returns whether no two elements share bytes. Each axis must step over what the axes with smaller
/// strides cover; other strides that are injective all the same are not recognised.
fn is_injective(view: &View) -> bool {
    let axes = view.shape().iter().zip(view.strides()).filter(|(n, _)| **n > 1);
    let mut axes: Dims<(usize, usize)> = axes.map(|(n, s)| (s.unsigned_abs(), *n)).collect();
    axes.sort_unstable();
    let mut covered = view.dtype().size();
    axes.iter().all(|(stride, n)| {
        let distinct = *stride >= covered;
        covered = covered.saturating_add(stride.saturating_mul(n - 1));
        distinct
    })
}

/// Checks that bools are bools.
///
/// # Safety
///
/// The view describes memory on the host that is alive, and nobody writes to it during the call.
///
/// # Errors
///
/// [`Error::Type`] for a byte that is neither 0 nor 1.
pub unsafe fn expect_bools(view: &View) -> Result<()> {
    let extent = layout::extent(view.shape(), view.strides(), 1);
    let is_bool = |byte: &u8| *byte <= 1;
    let are_bools = match extent {
        _ if view.is_empty() => true,
        None => false,
        Some((low, high)) if (high - low) as usize == view.len() => {
            let first = view.data().wrapping_offset(low);
            // SAFETY: the elements fill this range and are alive, and nobody writes to them.
            unsafe { std::slice::from_raw_parts(first, view.len()) }.iter().all(is_bool)
        }
        // SAFETY: these bytes are alive, and nobody writes to them.
        Some(_) => raw::<u8, IxDyn>(&as_bytes(view))
            .is_ok_and(|array| unsafe { array.deref_into_view() }.iter().all(is_bool)),
    };
    are_bools.then_some(()).ok_or_else(not_bools)
}

/// The bytes of bools.
pub fn as_bytes(view: &View) -> View {
    debug_assert_eq!(view.dtype(), DType::Bool);
    let (shape, strides) = (view.shape().into(), view.strides().into());
    // SAFETY: a bool is one byte, so these are the elements that the view describes.
    unsafe { View::new(view.data(), DType::Uint8, shape, strides) }.on(view.device())
}

/// The error for bools that are neither 0 nor 1.
pub fn not_bools() -> Error {
    Error::Type("the bool array holds bytes that are neither 0 nor 1".into())
}
