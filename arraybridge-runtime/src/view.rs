//! A described block of host memory and whoever keeps it alive.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use dlpark::ffi::{DLDevice, DLManagedTensor, DLManagedTensorVersioned};
use dlpark::{Managed, OpaqueContext};
use pyo3::ffi;
use pyo3::prelude::*;
use smallvec::SmallVec;

use crate::host::buffer::HostBuffer;
use crate::host::layout;
use crate::spec::{DType, Strides};

/// Extents or strides; up to six axes need no allocation.
pub type Dims<T> = SmallVec<[T; 6]>;

/// Where the elements of a host array are and how they are laid out.
#[derive(Clone, Debug)]
pub struct View {
    /// The first element. Not null unless there are no elements.
    pub data: *mut u8,
    /// The element type.
    pub dtype: DType,
    /// Elements along each axis.
    pub shape: Dims<usize>,
    /// Bytes from one element to the next along each axis.
    pub strides: Dims<isize>,
    /// Whether writing is forbidden.
    pub read_only: bool,
    /// Whether the bytes of each element are in the other order than the machine's.
    pub swapped: bool,
    /// The DLPack device that the memory belongs to.
    pub device: DLDevice,
}

impl View {
    /// The number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether there are no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// The bytes of all elements.
    #[inline]
    pub fn nbytes(&self) -> usize {
        self.len() * self.dtype.size()
    }

    /// The tightest class that the strides belong to.
    pub fn layout(&self) -> Strides {
        let size = self.dtype.size();
        if layout::is_compact(&self.shape, &self.strides, size) {
            Strides::Compact
        } else if layout::is_permuted_compact(&self.shape, &self.strides, size) {
            Strides::Permuted
        } else if layout::has_negative(&self.shape, &self.strides) {
            Strides::Any
        } else {
            Strides::Positive
        }
    }

    /// Whether each element's address, and each stride, is a multiple of its size.
    pub fn is_aligned(&self) -> bool {
        let unit = match self.dtype {
            DType::Complex64 | DType::Complex128 => self.dtype.size() / 2,
            _ => self.dtype.size(),
        };
        (self.data as usize).is_multiple_of(unit)
            && self.strides.iter().zip(&self.shape).all(|(s, n)| *n <= 1 || s % unit as isize == 0)
    }

    /// Whether each stride is a whole number of elements, as DLPack needs it.
    pub fn has_element_strides(&self) -> bool {
        let size = self.dtype.size() as isize;
        self.strides.iter().zip(&self.shape).all(|(s, n)| *n <= 1 || s % size == 0)
    }
}

/// A reference to a Python object that any thread may drop, even after the interpreter is gone.
///
/// Libraries free DLPack tensors on threads that Python did not make. PyO3's own reference would
/// put the object aside until the next call into this module, since it cannot see that a foreign
/// frame holds the interpreter; here it is freed at once, and left to the process only when there
/// is no interpreter any more.
pub struct Held(NonNull<ffi::PyObject>);

// SAFETY: the pointer is only handed back to the interpreter, by a thread that is attached to it.
unsafe impl Send for Held {}

impl Held {
    /// Holds an object.
    pub fn new(object: &Bound<'_, PyAny>) -> Held {
        let pointer = object.clone().into_ptr();
        // SAFETY: a bound object's pointer is never null.
        Held(unsafe { NonNull::new_unchecked(pointer) })
    }

    /// Holds the same object once more.
    pub fn clone_ref(&self, py: Python<'_>) -> Held {
        // SAFETY: the object is alive, since this reference is owned.
        let object = unsafe { Bound::from_borrowed_ptr(py, self.0.as_ptr()) };
        Held::new(&object)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: the reference is owned. These three calls need no interpreter; the count is
        // changed only by a thread that is attached.
        unsafe {
            if ffi::Py_IsInitialized() != 0 {
                if ffi::PyGILState_Check() == 1 {
                    ffi::Py_DECREF(self.0.as_ptr());
                } else {
                    Python::try_attach(|_| ffi::Py_DECREF(self.0.as_ptr()));
                }
            }
        }
    }
}

// SAFETY: `Held` may be dropped on any thread.
unsafe impl OpaqueContext for Held {
    fn into_raw(self) -> *mut c_void {
        ManuallyDrop::new(self).0.as_ptr().cast()
    }

    unsafe fn drop_raw(raw: *mut c_void) {
        if let Some(pointer) = NonNull::new(raw.cast()) {
            drop(Held(pointer));
        }
    }
}

/// What keeps a view's memory alive.
pub enum Owner {
    /// A Python object.
    Object(Held),
    /// A tensor that another library exported.
    Versioned(Managed<DLManagedTensorVersioned>),
    /// The same, with the legacy header.
    Legacy(Managed<DLManagedTensor>),
    /// Our own memory, which nobody else has seen.
    Buffer(HostBuffer),
}

/// A view and its owner.
pub struct Source {
    /// The description.
    pub view: View,
    /// Who keeps it alive.
    pub owner: Owner,
}

impl Source {
    /// Whether the memory is ours alone, so that anybody may write into it.
    pub fn is_private(&self) -> bool {
        matches!(self.owner, Owner::Buffer(_))
    }
}
