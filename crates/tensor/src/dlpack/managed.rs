//! Exports: managed tensors of described memory.

use dlpark::ffi::{DLManagedTensor, DLManagedTensorVersioned};
use dlpark::{DlpackFlags, Managed, ManagedTensorBase};

use crate::memory::source::{Outgoing, Owner, build};
use crate::memory::view::View;

/// Memory as a versioned tensor.
pub fn versioned(memory: Outgoing<'_>) -> Managed<DLManagedTensorVersioned> {
    let (view, owner) = memory.into_parts();
    let flags = if view.is_read_only() { DlpackFlags::READ_ONLY } else { DlpackFlags::empty() };
    match owner {
        Owner::Versioned(mut tensor) if describes(&tensor, view) => {
            // SAFETY: the flag can only be added here, which forbids writing.
            unsafe { *tensor.flags_mut() |= flags };
            tensor
        }
        // SAFETY: the owner keeps alive what the view describes.
        Owner::Foreign(foreign) => unsafe { foreign.versioned(view, flags) },
        // SAFETY: as above.
        owner => unsafe { build_for(view, flags, owner) },
    }
}

/// Memory as a legacy tensor, which cannot say that it is read-only.
pub fn legacy(memory: Outgoing<'_>) -> Managed<DLManagedTensor> {
    let (view, owner) = memory.into_parts();
    let flags = DlpackFlags::empty();
    match owner {
        Owner::Legacy(tensor) if describes(&tensor, view) => tensor,
        // SAFETY: the owner keeps alive what the view describes.
        Owner::Foreign(foreign) => unsafe { foreign.legacy(view, flags) },
        // SAFETY: as above.
        owner => unsafe { build_for(view, flags, owner) },
    }
}

/// A new tensor of the memory that a view describes.
///
/// # Safety
///
/// The owner keeps alive what the view describes.
#[inline]
unsafe fn build_for<M: ManagedTensorBase>(
    view: &View,
    flags: DlpackFlags,
    owner: Owner,
) -> Managed<M> {
    // SAFETY: the owner keeps alive what the view describes, as it is or in a box.
    unsafe {
        match owner {
            Owner::Shared(owner) => build(view, flags, owner),
            owner => build(view, flags, Box::new(owner)),
        }
    }
}

/// Returns whether an imported tensor can be passed on unchanged: the view may describe other
/// memory than the tensor does, and from DLPack 1.2 on consumers rely on strides being there.
fn describes<M: ManagedTensorBase>(tensor: &Managed<M>, view: &View) -> bool {
    let raw = super::raw(tensor);
    let size = view.dtype().size() as i64;
    // CuPy's negative strides are not those that the view has.
    let has_stride = |(axis, stride): (usize, &isize)| {
        // SAFETY: a described tensor has as many strides as axes, if it has any.
        unsafe { (*raw.strides.add(axis)).checked_mul(size) == Some(*stride as i64) }
    };
    (raw.ndim == 0 || !raw.strides.is_null())
        && raw.data.cast::<u8>() == view.data()
        && raw.byte_offset == 0
        && raw.device == view.device()
        && raw.dtype == view.dtype().dlpack()
        && raw.ndim as usize == view.ndim()
        && view.strides().iter().enumerate().all(has_stride)
}
