//! DLPack tensors of described memory.

use dlpark::{DlpackFlags, Managed, ManagedTensorBase, OpaqueContext, allocation::dynamic};

use crate::memory::view::View;

/// A new tensor of the memory that a view describes, with strides.
///
/// # Safety
///
/// The context keeps alive what the view describes.
pub(crate) unsafe fn build<M: ManagedTensorBase, C: OpaqueContext>(
    view: &View,
    flags: DlpackFlags,
    context: C,
) -> Managed<M> {
    let ndim = view.ndim();
    let size = view.dtype().size() as isize;
    // The rank comes from a framework or a checked descriptor, so it fits.
    let allocation = dynamic::Allocation::<M>::allocate(2 * ndim)
        .expect("two numbers per axis fit an allocation");
    let mut tensor = allocation.initialize(context, ndim).expect("the rank fits a C int");
    let extra = tensor.extra_mut();
    for (axis, (n, stride)) in view.shape().iter().zip(view.strides()).enumerate() {
        extra[axis] = *n as i64;
        extra[ndim + axis] = (*stride / size) as i64;
    }
    let extra = extra.as_mut_ptr();
    let descriptor = tensor.tensor_mut();
    if ndim > 0 {
        descriptor.shape = extra;
        descriptor.strides = extra.wrapping_add(ndim);
    }
    descriptor.data = view.data().cast();
    descriptor.device = view.device();
    descriptor.dtype = view.dtype().dlpack();
    // SAFETY: no flag claims a copy. The descriptor is that of the view, whose memory the context keeps
    // alive, and shape and strides are in the tensor's own allocation.
    unsafe {
        tensor.set_flags_unchecked(flags);
        tensor.finish()
    }
}
