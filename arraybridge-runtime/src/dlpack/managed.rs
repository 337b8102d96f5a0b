//! Our own exports: a managed tensor around a source.

use dlpark::ffi::{DLManagedTensor, DLManagedTensorVersioned};
use dlpark::{DlpackFlags, Managed, ManagedTensorBase, OpaqueContext, allocation::dynamic};

use crate::memory::view::{Owner, Source, View};

/// A source as a versioned tensor.
pub fn versioned(source: Source) -> Managed<DLManagedTensorVersioned> {
    versioned_of(&source.view, source.owner)
}

/// As [`versioned`], of a view that stays where it is.
pub fn versioned_of(view: &View, owner: Owner) -> Managed<DLManagedTensorVersioned> {
    let flags = if view.read_only { DlpackFlags::READ_ONLY } else { DlpackFlags::empty() };
    match owner {
        Owner::Versioned(mut tensor) if describes(&tensor, view) => {
            // SAFETY: the flag is only ever added, never taken away.
            unsafe { *tensor.flags_mut() |= flags };
            tensor
        }
        Owner::Object(held) => build(view, flags, held),
        Owner::Shared(owner) => build(view, flags, owner),
        owner => build(view, flags, Box::new(owner)),
    }
}

/// A source as a legacy tensor, which cannot say that it is read-only.
pub fn legacy(source: Source) -> Managed<DLManagedTensor> {
    legacy_of(&source.view, source.owner)
}

/// As [`legacy`], of a view that stays where it is.
pub fn legacy_of(view: &View, owner: Owner) -> Managed<DLManagedTensor> {
    match owner {
        Owner::Legacy(tensor) if describes(&tensor, view) => tensor,
        Owner::Object(held) => build(view, DlpackFlags::empty(), held),
        Owner::Shared(owner) => build(view, DlpackFlags::empty(), owner),
        owner => build(view, DlpackFlags::empty(), Box::new(owner)),
    }
}

/// Whether a tensor that was imported can be handed on as it is: consumers of DLPack 1.2 rely on
/// strides being there, and the view may describe other memory than the tensor it came with.
fn describes<M: ManagedTensorBase>(tensor: &Managed<M>, view: &View) -> bool {
    let raw = super::raw(tensor);
    (raw.ndim == 0 || !raw.strides.is_null())
        && raw.data.cast::<u8>().wrapping_add(raw.byte_offset as usize) == view.data
        && raw.byte_offset == 0
        && raw.device == view.device
        && raw.dtype == view.dtype.dlpack()
        && raw.ndim as usize == view.shape.len()
}

fn build<M: ManagedTensorBase, C: OpaqueContext>(
    view: &View,
    flags: DlpackFlags,
    context: C,
) -> Managed<M> {
    let ndim = view.shape.len();
    let size = view.dtype.size() as isize;
    // A rank that a `View` holds came from a framework or a checked descriptor: it fits.
    let allocation = dynamic::Allocation::<M>::allocate(2 * ndim)
        .expect("two extents an axis fit an allocation");
    let mut tensor = allocation.initialize(context, ndim).expect("the rank fits a C int");
    let extra = tensor.extra_mut();
    for (axis, (n, stride)) in view.shape.iter().zip(&view.strides).enumerate() {
        extra[axis] = *n as i64;
        extra[ndim + axis] = (*stride / size) as i64;
    }
    let extra = extra.as_mut_ptr();
    let descriptor = tensor.tensor_mut();
    if ndim > 0 {
        descriptor.shape = extra;
        descriptor.strides = extra.wrapping_add(ndim);
    }
    descriptor.data = view.data.cast();
    descriptor.device = view.device;
    descriptor.dtype = view.dtype.dlpack();
    // SAFETY: no flag claims a copy; the descriptor states the view's memory, which the context
    // keeps alive, and its extents lie in the tensor's own allocation.
    unsafe {
        tensor.set_flags_unchecked(flags);
        tensor.finish()
    }
}
