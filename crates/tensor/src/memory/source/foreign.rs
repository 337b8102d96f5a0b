//! Objects of another language that keep memory alive.

use std::any::TypeId;
use std::ffi::c_void;
use std::mem::{ManuallyDrop, transmute_copy};

use dlpark::ffi::{DLManagedTensor, DLManagedTensorVersioned};
use dlpark::{DlpackFlags, Managed, OpaqueContext};

use super::build;
use crate::memory::view::View;

/// A reference to an object of another language, which any thread may drop.
///
/// # Safety
///
/// The type is represented by one pointer that is not null: the one that [`OpaqueContext::into_raw`] returns.
pub unsafe trait Handle: OpaqueContext + Send + Sized + 'static {}

/// A [`Handle`] whose type is known at run time.
pub struct Foreign {
    raw: *mut c_void,
    of: &'static Operations,
}

/// What can be done with a handle of one type.
struct Operations {
    type_id: fn() -> TypeId,
    drop: unsafe fn(*mut c_void),
    versioned: unsafe fn(&View, DlpackFlags, Foreign) -> Managed<DLManagedTensorVersioned>,
    legacy: unsafe fn(&View, DlpackFlags, Foreign) -> Managed<DLManagedTensor>,
}

impl Operations {
    const fn of<H: Handle>() -> &'static Operations {
        &Operations {
            type_id: TypeId::of::<H>,
            drop: H::drop_raw,
            // SAFETY: these are called with a handle of this type, and the caller vouches for the view.
            versioned: |view, flags, foreign| unsafe {
                build(view, flags, foreign.into_handle::<H>())
            },
            // SAFETY: as above.
            legacy: |view, flags, foreign| unsafe {
                build(view, flags, foreign.into_handle::<H>())
            },
        }
    }
}

// SAFETY: any thread may drop a handle.
unsafe impl Send for Foreign {}

impl Foreign {
    /// A handle whose type is forgotten.
    #[inline]
    pub fn new<H: Handle>(handle: H) -> Foreign {
        Foreign { raw: handle.into_raw(), of: Operations::of::<H>() }
    }

    /// Returns whether the handle is of this type.
    #[inline]
    pub fn is<H: Handle>(&self) -> bool {
        (self.of.type_id)() == TypeId::of::<H>()
    }

    /// The handle, if it is of this type.
    #[inline]
    pub fn get<H: Handle>(&self) -> Option<&H> {
        // SAFETY: the handle is of this type, which is represented by the pointer.
        self.is::<H>().then(|| unsafe { &*(&raw const self.raw).cast::<H>() })
    }

    /// The handle itself, if it is of this type.
    ///
    /// # Errors
    ///
    /// This, if it is of another type.
    #[inline]
    pub fn downcast<H: Handle>(self) -> Result<H, Foreign> {
        // SAFETY: the handle is of this type.
        if self.is::<H>() { Ok(unsafe { self.into_handle() }) } else { Err(self) }
    }

    /// # Safety
    ///
    /// The handle is of this type.
    #[inline]
    unsafe fn into_handle<H: Handle>(self) -> H {
        // SAFETY: the type is represented by the pointer, which is not used again.
        unsafe { transmute_copy(&ManuallyDrop::new(self).raw) }
    }

    /// A DLPack tensor of memory that this keeps alive.
    ///
    /// # Safety
    ///
    /// It does keep alive what the view describes.
    #[inline]
    pub(crate) unsafe fn versioned(
        self,
        view: &View,
        flags: DlpackFlags,
    ) -> Managed<DLManagedTensorVersioned> {
        // SAFETY: the operations are those of the handle's type.
        unsafe { (self.of.versioned)(view, flags, self) }
    }

    /// As [`versioned`](Foreign::versioned), with the legacy header.
    ///
    /// # Safety
    ///
    /// The condition of [`versioned`](Foreign::versioned).
    #[inline]
    pub(crate) unsafe fn legacy(self, view: &View, flags: DlpackFlags) -> Managed<DLManagedTensor> {
        // SAFETY: the operations are those of the handle's type.
        unsafe { (self.of.legacy)(view, flags, self) }
    }
}

impl Drop for Foreign {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the pointer comes from `into_raw` of the handle's type, and is used once.
        unsafe { (self.of.drop)(self.raw) };
    }
}

#[cfg(test)]
mod tests;
