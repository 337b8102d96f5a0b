//! A described block of host memory and whoever keeps it alive.

use std::ffi::CStr;
use std::sync::{Arc, Mutex};

use dlpark::Managed;
use dlpark::ffi::{DLDevice, DLManagedTensor, DLManagedTensorVersioned};

use crate::host::buffer::HostBuffer;
use crate::host::dtype::{DType, Kind};
use crate::host::layout;
pub use crate::host::layout::Dims;
use crate::host::layout::Strides;
use crate::interpreter::held::{Held, HeldBuffer};

/// Where the elements of a host array are and how they are laid out.
#[derive(Debug)]
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

impl Clone for View {
    fn clone(&self) -> View {
        // A small vector's own clone goes element by element.
        let (shape, strides) = (Dims::from_slice(&self.shape), Dims::from_slice(&self.strides));
        View { shape, strides, ..*self }
    }
}

impl Default for View {
    /// No axes and no memory, to be described in place.
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
    /// Sets the extents and the strides in bytes.
    #[inline]
    pub fn set_axes(&mut self, shape: &[usize], strides: &[isize]) {
        set(&mut self.shape, shape.iter().copied());
        set(&mut self.strides, strides.iter().copied());
    }

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
        let unit = match self.dtype.kind() {
            Kind::Complex => self.dtype.size() / 2,
            _ => self.dtype.size(),
        };
        is_multiple(self.data as usize, unit) && self.has_strides_of(unit)
    }

    /// Whether the machine can load each element from where it is.
    pub fn can_be_read(&self) -> bool {
        self.is_empty() || (!self.swapped && self.has_element_strides() && self.is_aligned())
    }

    /// Whether the first element's address is a multiple of its size, both halves of a complex
    /// number counted.
    pub fn starts_aligned(&self) -> bool {
        is_multiple(self.data as usize, self.dtype.size())
    }

    /// Whether each stride is a whole number of elements, as DLPack needs it.
    pub fn has_element_strides(&self) -> bool {
        self.has_strides_of(self.dtype.size())
    }

    fn has_strides_of(&self, unit: usize) -> bool {
        let whole = |(s, n): (&isize, &usize)| *n <= 1 || is_multiple(s.unsigned_abs(), unit);
        self.strides.iter().zip(&self.shape).all(whole)
    }
}

/// Puts a few numbers into `dims`, one by one, but without a look at the room for each.
#[inline]
pub fn set<T>(dims: &mut Dims<T>, numbers: impl ExactSizeIterator<Item = T>) {
    let room = numbers.len();
    dims.clear();
    dims.reserve(room);
    let first = dims.as_mut_ptr();
    let mut count = 0;
    for number in numbers.take(room) {
        // SAFETY: there is room for as many.
        unsafe { first.add(count).write(number) };
        count += 1;
    }
    // SAFETY: as many were written.
    unsafe { dims.set_len(count) };
}

/// Whether a number is a multiple of a power of two, without a division.
fn is_multiple(number: usize, power: usize) -> bool {
    debug_assert!(power.is_power_of_two());
    number & (power - 1) == 0
}

/// The tightest class that strides in bytes belong to.
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
    /// One of these, and an object that its memory needs too.
    With(Box<Owner>, Held),
}

/// A view and its owner.
pub struct Source {
    /// The description.
    pub view: View,
    /// Who keeps it alive.
    pub owner: Owner,
}

impl HeldBuffer {
    /// Describes the buffer in `view`. Its element type is the given one, if the sizes agree, or the
    /// one that its format names without doubt: a float or a complex number.
    #[inline]
    pub fn describe(&self, dtype: Option<DType>, view: &mut View) -> bool {
        let buffer = self.get();
        let ndim = buffer.ndim as usize;
        let Some(dtype) = dtype.or_else(|| self.float()) else { return false };
        if buffer.itemsize as usize != dtype.size() || (ndim > 0 && buffer.strides.is_null()) {
            return false;
        }
        if ndim == 0 {
            view.set_axes(&[], &[]);
        } else {
            // SAFETY: shape and strides were asked for, have `ndim` entries, and live as long as
            // the buffer.
            let (shape, strides) = unsafe {
                (
                    std::slice::from_raw_parts(buffer.shape.cast(), ndim),
                    std::slice::from_raw_parts(buffer.strides, ndim),
                )
            };
            view.set_axes(shape, strides);
        }
        view.data = buffer.buf.cast();
        view.dtype = dtype;
        view.read_only = buffer.readonly != 0;
        view.swapped = false;
        view.device = DLDevice::CPU;
        true
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
