//! Described memory and its owner.

mod build;
mod foreign;
mod slot;

use std::any::Any;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use dlpark::Managed;
use dlpark::ffi::{DLManagedTensor, DLManagedTensorVersioned};
use ndarray::{Array, Dimension};

use crate::error::{Error, Result};
use crate::memory::element::Element;
use crate::memory::view::{Dims, View};
use arraybridge_host::buffer::HostBuffer;
use arraybridge_host::dtype::DType;
use arraybridge_host::layout::{self, contiguous_strides};

pub(crate) use build::build;
pub use foreign::{Foreign, Handle};
pub use slot::Slot;

/// The owner that keeps an array's memory alive.
pub enum Owner {
    /// An object of another language, such as a Python object.
    Foreign(Foreign),
    /// A tensor that another library exported.
    Versioned(Managed<DLManagedTensorVersioned>),
    /// A tensor that another library exported with the legacy header.
    Legacy(Managed<DLManagedTensor>),
    /// A buffer of our own, to which there is no other reference.
    Buffer(HostBuffer),
    /// A Rust value that owns the memory, such as a `Vec`, an array or a slice of device memory.
    Value(Box<dyn Any + Send>),
    /// An owner that several sources share.
    Shared(Arc<Mutex<Owner>>),
    /// An owner, and an object that the memory depends on too.
    With(Box<Owner>, Foreign),
}

impl<H: Handle> From<H> for Owner {
    #[inline]
    fn from(handle: H) -> Owner {
        Owner::Foreign(Foreign::new(handle))
    }
}

impl From<Managed<DLManagedTensorVersioned>> for Owner {
    fn from(tensor: Managed<DLManagedTensorVersioned>) -> Owner {
        Owner::Versioned(tensor)
    }
}

impl From<Managed<DLManagedTensor>> for Owner {
    fn from(tensor: Managed<DLManagedTensor>) -> Owner {
        Owner::Legacy(tensor)
    }
}

impl Owner {
    /// Another owner of the same memory.
    pub fn share(&mut self) -> Owner {
        let shared = match std::mem::replace(self, Owner::Value(Box::new(()))) {
            Owner::Shared(shared) => shared,
            owner => Arc::new(Mutex::new(owner)),
        };
        *self = Owner::Shared(Arc::clone(&shared));
        Owner::Shared(shared)
    }

    /// The owner itself if it is shared with nobody any more.
    pub fn unshare(self) -> Owner {
        match self {
            Owner::Shared(shared) => match Arc::try_unwrap(shared) {
                Ok(owner) => owner.into_inner().unwrap_or_else(PoisonError::into_inner).unshare(),
                Err(shared) => Owner::Shared(shared),
            },
            owner => owner,
        }
    }

    /// Returns whether the memory was allocated by Rust code.
    pub fn is_rust(&self) -> bool {
        match self {
            Owner::Shared(owner) => owner.lock().unwrap_or_else(PoisonError::into_inner).is_rust(),
            owner => owner.is_sole(),
        }
    }

    /// Returns whether the memory was allocated by Rust code, and nobody shares it.
    pub fn is_sole(&self) -> bool {
        matches!(self, Owner::Buffer(_) | Owner::Value(_))
    }
}

/// A view and the owner of its memory. The described memory is valid for reads, and for writes unless the
/// view is read-only, as long as the owner lives.
pub struct Source {
    view: View,
    owner: Owner,
}

impl Source {
    /// Joins a view and the owner of its memory.
    ///
    /// # Safety
    ///
    /// The described memory is valid for reads, and for writes unless the view is read-only, as long as the
    /// owner lives.
    #[inline]
    pub unsafe fn new(view: View, owner: Owner) -> Source {
        Source { view, owner }
    }

    /// An array in row-major order in a buffer of our own.
    ///
    /// # Safety
    ///
    /// The elements are written before anybody reads them.
    ///
    /// # Panics
    ///
    /// Panics if the buffer is too small.
    pub unsafe fn from_buffer(mut buffer: HostBuffer, dtype: DType, shape: Dims<usize>) -> Source {
        expect_room(&buffer, dtype, &shape);
        let strides = contiguous_strides(&shape, dtype.size());
        // SAFETY: the buffer has the bytes of the contiguous array, and is the owner.
        unsafe {
            let view = View::new(buffer.as_mut_ptr(), dtype, shape, strides);
            Source::new(view, Owner::Buffer(buffer))
        }
    }

    /// An array of bytes in the machine's byte order, copied to aligned memory.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] if the shape needs another number of bytes, [`Error::Memory`] if the allocation fails.
    pub fn from_bytes(bytes: &[u8], dtype: DType, shape: &[usize]) -> Result<Source> {
        if layout::contiguous_bytes(shape, dtype.size()) != Some(bytes.len()) {
            let text =
                format!("{} bytes do not make a {dtype} array of shape {shape:?}", bytes.len());
            return Err(Error::Value(text));
        }
        let mut buffer = HostBuffer::new(bytes.len())?;
        // SAFETY: the buffer is new and has this many bytes. All of them are written here.
        unsafe {
            buffer.as_mut_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            Ok(Source::from_buffer(buffer, dtype, shape.into()))
        }
    }

    /// An array of elements, copied to aligned memory.
    pub fn from_slice<T: Element>(elements: &[T], shape: &[usize]) -> Result<Source> {
        // SAFETY: the bytes of an element are all initialised.
        let bytes =
            unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) };
        Source::from_bytes(bytes, T::DTYPE, shape)
    }

    /// The elements of a vector, in row-major order, without a copy.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] if the shape has another number of elements than the vector.
    pub fn from_vec<T: Element>(mut elements: Vec<T>, shape: &[usize]) -> Result<Source> {
        expect_len(shape, T::DTYPE, elements.len())?;
        let strides = contiguous_strides(shape, size_of::<T>());
        // SAFETY: the vector has the elements of the shape. It becomes the owner, and moving it into the
        // box does not move its elements.
        unsafe {
            let data = elements.as_mut_ptr().cast();
            let view = View::new(data, T::DTYPE, shape.into(), strides);
            Ok(Source::new(view, Owner::Value(Box::new(elements))))
        }
    }

    /// Replaces the owner of the memory.
    ///
    /// # Safety
    ///
    /// The new owner keeps the memory valid, as for [`Source::new`].
    pub unsafe fn with_owner(mut self, owner: Owner) -> Source {
        self.owner = owner;
        self
    }

    /// Adds an object that the memory depends on too.
    #[must_use]
    pub fn with_object(mut self, object: impl Handle) -> Source {
        self.owner = Owner::With(Box::new(self.owner), Foreign::new(object));
        self
    }

    /// Forbids writing if `read_only` is true.
    pub fn restrict(&mut self, read_only: bool) {
        self.view.restrict(read_only);
    }

    /// The description.
    #[inline]
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The owner of the memory.
    #[inline]
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// The description and the owner. From here on nothing ties the one to the other.
    #[inline]
    pub fn into_parts(self) -> (View, Owner) {
        (self.view, self.owner)
    }

    /// A source of the part at an index of the first axis, which shares the owner.
    ///
    /// # Panics
    ///
    /// Panics if there is no such index.
    pub fn slice(&mut self, index: usize) -> Source {
        Source { view: self.view.slice(index), owner: self.owner.share() }
    }

    /// Passes the memory to `export`.
    #[inline]
    pub fn hand_over<R>(self, export: impl FnOnce(Outgoing<'_>) -> R) -> R {
        export(Outgoing { view: &self.view, owner: self.owner })
    }
}

impl<T: Element, D: Dimension + 'static> From<Array<T, D>> for Source {
    fn from(mut array: Array<T, D>) -> Source {
        let size = size_of::<T>() as isize;
        let (shape, data) = (array.shape().into(), array.as_mut_ptr().cast());
        let strides = array.strides().iter().map(|stride| stride * size).collect();
        // SAFETY: these are the array's own address, shape and strides. It becomes the owner, and moving
        // it into the box does not move its elements.
        unsafe {
            Source::new(View::new(data, T::DTYPE, shape, strides), Owner::Value(Box::new(array)))
        }
    }
}

/// # Panics
///
/// Panics if a buffer is too small for a contiguous array.
fn expect_room(buffer: &HostBuffer, dtype: DType, shape: &[usize]) {
    let bytes = layout::contiguous_bytes(shape, dtype.size());
    assert!(bytes.is_some_and(|bytes| bytes <= buffer.len()), "the buffer is too small");
}

/// Checks that a shape has this number of elements.
///
/// # Errors
///
/// [`Error::Value`] if it has another.
pub fn expect_len(shape: &[usize], dtype: DType, len: usize) -> Result<()> {
    let wanted = layout::contiguous_bytes(shape, dtype.size());
    if wanted != len.checked_mul(dtype.size()) || wanted.is_none() {
        let text = format!("{len} elements do not make a {dtype} array of shape {shape:?}");
        return Err(Error::Value(text));
    }
    Ok(())
}

/// Memory on its way to a new owner, such as a framework's array. Its description is borrowed, since
/// moving what was just written stalls the processor.
pub struct Outgoing<'a> {
    view: &'a View,
    owner: Owner,
}

impl<'a> Outgoing<'a> {
    /// The description.
    #[inline]
    pub fn view(&self) -> &'a View {
        self.view
    }

    /// The description and the owner. From here on nothing ties the one to the other.
    #[inline]
    pub fn into_parts(self) -> (&'a View, Owner) {
        (self.view, self.owner)
    }

    /// The memory with a copy of its description.
    pub fn into_source(self) -> Source {
        Source { view: self.view.clone(), owner: self.owner }
    }
}

/// Memory that can be exported several times.
pub struct SharedSource {
    view: View,
    owner: Arc<Mutex<Owner>>,
}

impl SharedSource {
    /// The description.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// A source of the memory. The owner lives as long as this and every source.
    pub fn source(&self) -> Source {
        Source { view: self.view.clone(), owner: Owner::Shared(self.owner.clone()) }
    }

    /// A source of the elements in a range along each of some axes.
    ///
    /// # Panics
    ///
    /// Panics if there are no such elements.
    pub fn region(&self, ranges: impl IntoIterator<Item = (usize, Range<usize>)>) -> Source {
        Source { view: self.view.region(ranges), owner: Owner::Shared(self.owner.clone()) }
    }

    /// A source of the part at an index of the first axis.
    ///
    /// # Panics
    ///
    /// Panics if there is no such index.
    pub fn slice(&self, index: usize) -> Source {
        Source { view: self.view.slice(index), owner: Owner::Shared(self.owner.clone()) }
    }
}

impl From<Source> for SharedSource {
    fn from(source: Source) -> SharedSource {
        let Source { view, owner } = source;
        let owner = match owner {
            Owner::Shared(owner) => owner,
            owner => Arc::new(Mutex::new(owner)),
        };
        SharedSource { view, owner }
    }
}

/// Memory for tests, those of other crates too.
#[doc(hidden)]
pub mod counted {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    struct Counted(Arc<AtomicUsize>);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Memory that counts how often it is freed.
    pub fn counted(frees: &Arc<AtomicUsize>) -> Source {
        let (view, owner) = Source::from_slice(&[1_u8, 2], &[2]).unwrap().into_parts();
        let owner = Owner::Value(Box::new((owner, Counted(frees.clone()))));
        // SAFETY: the new owner contains the previous one.
        unsafe { Source::new(view, owner) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_that_is_too_small_is_not_described() {
        let described = std::panic::catch_unwind(|| {
            let buffer = HostBuffer::new(11).unwrap();
            // SAFETY: nobody reads the elements.
            unsafe { Source::from_buffer(buffer, DType::Float32, [3][..].into()) }
        });
        assert!(described.is_err());
    }
}
