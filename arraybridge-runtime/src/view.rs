//! A described block of host memory and whoever keeps it alive.

use std::ffi::CStr;
use std::sync::{Arc, Mutex};

use dlpark::Managed;
use dlpark::ffi::{DLDevice, DLManagedTensor, DLManagedTensorVersioned};
use smallvec::SmallVec;

use crate::held::{Held, HeldBuffer};
use crate::host::buffer::HostBuffer;
use crate::host::layout;
use crate::spec::{DType, Kind, Strides};

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

    /// The bytes to reverse at a time where the elements are in the other order: a complex number
    /// is two real ones.
    pub fn swap_unit(&self) -> Option<usize> {
        let halves = if self.dtype.kind() == Kind::Complex { 2 } else { 1 };
        self.swapped.then_some(self.dtype.size() / halves)
    }

    /// The tightest class that the strides belong to.
    pub fn layout(&self) -> Strides {
        layout_of(&self.shape, &self.strides, self.dtype.size())
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

    /// Whether the machine can load each element from where it is.
    pub fn can_be_read(&self) -> bool {
        self.is_empty() || (!self.swapped && self.has_element_strides() && self.is_aligned())
    }

    /// Whether each stride is a whole number of elements, as DLPack needs it.
    pub fn has_element_strides(&self) -> bool {
        let size = self.dtype.size() as isize;
        self.strides.iter().zip(&self.shape).all(|(s, n)| *n <= 1 || s % size == 0)
    }
}

/// The tightest class that strides in bytes belong to.
pub fn layout_of(shape: &[usize], strides: &[isize], size: usize) -> Strides {
    if layout::is_compact(shape, strides, size) {
        Strides::Compact
    } else if layout::is_permuted_compact(shape, strides, size) {
        Strides::Permuted
    } else if layout::has_negative(shape, strides) {
        Strides::Any
    } else {
        Strides::Positive
    }
}

/// What keeps a view's memory alive.
pub enum Owner {
    /// A Python object.
    Object(Held),
    /// A view through the buffer protocol.
    Exported(HeldBuffer),
    /// A tensor that another library exported.
    Versioned(Managed<DLManagedTensorVersioned>),
    /// The same, with the legacy header.
    Legacy(Managed<DLManagedTensor>),
    /// Our own memory, which nobody else has seen.
    Buffer(HostBuffer),
    /// A Rust value that owns it: a `Vec`, an array, a slice of a device.
    Value(Box<dyn Send>),
    /// One of these that has more than one user.
    Shared(Arc<Mutex<Owner>>),
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

impl HeldBuffer {
    /// The buffer as a source. Its element type is the given one, if the sizes agree, or the one
    /// that its format names without doubt: a float or a complex number.
    pub fn describe(self, dtype: Option<DType>) -> Option<Source> {
        let buffer = self.get();
        let ndim = buffer.ndim as usize;
        let dtype = dtype.or_else(|| self.float())?;
        if buffer.itemsize as usize != dtype.size() || (ndim > 0 && buffer.strides.is_null()) {
            return None;
        }
        let (shape, strides): (Dims<usize>, Dims<isize>) = match ndim {
            0 => Default::default(),
            // SAFETY: shape and strides were asked for, have `ndim` entries, and live as long as
            // the buffer.
            _ => unsafe {
                (
                    std::slice::from_raw_parts(buffer.shape.cast::<usize>(), ndim).into(),
                    std::slice::from_raw_parts(buffer.strides, ndim).into(),
                )
            },
        };
        let view = View {
            data: buffer.buf.cast(),
            dtype,
            shape,
            strides,
            read_only: buffer.readonly != 0,
            swapped: false,
            device: DLDevice::CPU,
        };
        Some(Source { view, owner: Owner::Exported(self) })
    }

    fn float(&self) -> Option<DType> {
        let format = self.get().format;
        if format.is_null() {
            return None;
        }
        // SAFETY: the exporter's format is a C string that lives as long as the buffer.
        let format = unsafe { CStr::from_ptr(format) }.to_bytes();
        let native: &[u8] = if cfg!(target_endian = "little") { b"@=<" } else { b"@=>" };
        let format = match format.split_first() {
            Some((order, rest)) if native.contains(order) => rest,
            _ => format,
        };
        match format {
            b"e" => Some(DType::Float16),
            b"f" => Some(DType::Float32),
            b"d" => Some(DType::Float64),
            b"Zf" => Some(DType::Complex64),
            b"Zd" => Some(DType::Complex128),
            _ => None,
        }
    }
}
