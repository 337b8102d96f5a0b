//! Described memory and its owner.

use std::sync::{Arc, Mutex};

use dlpark::Managed;
use dlpark::ffi::{DLManagedTensor, DLManagedTensorVersioned};
use ndarray::{Array, Dimension};

use crate::host::buffer::HostBuffer;
use crate::host::dtype::DType;
use crate::host::layout::{self, contiguous_strides};
use crate::interpreter::error::{Error, Result};
use crate::interpreter::held::{Held, HeldBuffer};
use crate::memory::cast::no_memory;
use crate::memory::element::Element;
use crate::memory::view::{Dims, View};

/// What keeps an array's memory alive.
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

/// A view and the owner of its memory: what is described stays valid for reads, and for writes unless
/// it is read-only, as long as the owner lives.
pub struct Source {
    view: View,
    owner: Owner,
}

impl Source {
    /// Described memory of an owner.
    ///
    /// # Safety
    ///
    /// The described memory stays valid for reads, and for writes unless the view is read-only, as long
    /// as the owner lives.
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
    /// When the buffer is too small.
    pub unsafe fn from_buffer(mut buffer: HostBuffer, dtype: DType, shape: Dims<usize>) -> Source {
        let bytes = layout::contiguous_bytes(&shape, dtype.size());
        assert!(bytes.is_some_and(|bytes| bytes <= buffer.len()), "the buffer is too small");
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
    /// [`Error::Value`] when the shape does not have as many bytes, `MemoryError` when there is no memory.
    pub fn from_bytes(bytes: &[u8], dtype: DType, shape: &[usize]) -> Result<Source> {
        if layout::contiguous_bytes(shape, dtype.size()) != Some(bytes.len()) {
            let text =
                format!("{} bytes do not make a {dtype} array of shape {shape:?}", bytes.len());
            return Err(Error::Value(text));
        }
        let mut buffer = HostBuffer::new(bytes.len()).map_err(no_memory)?;
        // SAFETY: the buffer is new, has as many bytes, and all of them are written here.
        unsafe {
            buffer.as_mut_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            Ok(Source::from_buffer(buffer, dtype, shape.into()))
        }
    }

    /// An array of elements, copied to aligned memory.
    ///
    /// # Errors
    ///
    /// As [`Source::from_bytes`].
    pub fn from_slice<T: Element>(elements: &[T], shape: &[usize]) -> Result<Source> {
        // SAFETY: the bytes of an element are all initialised.
        let bytes =
            unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) };
        Source::from_bytes(bytes, T::DTYPE, shape)
    }

    /// The elements of a vector, in row-major order, where they are.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] when the shape has another number of elements than the vector.
    pub fn from_vec<T: Element>(mut elements: Vec<T>, shape: &[usize]) -> Result<Source> {
        expect_len(shape, T::DTYPE, elements.len())?;
        let strides = contiguous_strides(shape, size_of::<T>());
        // SAFETY: the vector has the elements of the shape. It is the owner, and its memory stays where
        // it is while the vector moves into the box.
        unsafe {
            let data = elements.as_mut_ptr().cast();
            let view = View::new(data, T::DTYPE, shape.into(), strides);
            Ok(Source::new(view, Owner::Value(Box::new(elements))))
        }
    }

    /// Adds an object that the memory needs too.
    pub fn and_held(mut self, object: Held) -> Source {
        self.owner = Owner::With(Box::new(self.owner), object);
        self
    }

    /// Replaces the owner.
    ///
    /// # Safety
    ///
    /// The new owner keeps the described memory valid, as for [`Source::new`].
    pub unsafe fn owned_by(mut self, owner: Owner) -> Source {
        self.owner = owner;
        self
    }

    /// Forbids writing, where `read_only` says so.
    pub fn restrict(&mut self, read_only: bool) {
        self.view.restrict(read_only);
    }

    /// The description.
    #[inline]
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Who keeps the memory alive.
    #[inline]
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// The description, which promises nothing any more, and the owner.
    #[inline]
    pub fn into_parts(self) -> (View, Owner) {
        (self.view, self.owner)
    }

    /// Hands the memory over to `take`.
    #[inline]
    pub fn hand_over<R>(self, take: impl FnOnce(Outgoing<'_>) -> R) -> R {
        take(Outgoing { view: &self.view, owner: self.owner })
    }
}

impl<T: Element, D: Dimension + 'static> From<Array<T, D>> for Source {
    fn from(mut array: Array<T, D>) -> Source {
        let size = size_of::<T>() as isize;
        let (shape, data) = (array.shape().into(), array.as_mut_ptr().cast());
        let strides = array.strides().iter().map(|stride| stride * size).collect();
        // SAFETY: this is what the array says of its elements. It is the owner, and its memory stays
        // where it is while the array moves into the box.
        unsafe {
            Source::new(View::new(data, T::DTYPE, shape, strides), Owner::Value(Box::new(array)))
        }
    }
}

/// Checks that a shape has this number of elements.
///
/// # Errors
///
/// [`Error::Value`] when it has not.
pub(crate) fn expect_len(shape: &[usize], dtype: DType, len: usize) -> Result<()> {
    let wanted = layout::contiguous_bytes(shape, dtype.size());
    if wanted != len.checked_mul(dtype.size()) || wanted.is_none() {
        let text = format!("{len} elements do not make a {dtype} array of shape {shape:?}");
        return Err(Error::Value(text));
    }
    Ok(())
}

/// Memory on its way to a new owner, such as a framework's array. The description stays where it was
/// written: to move what was just written stalls the processor.
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

    /// The description, which promises nothing any more, and the owner.
    #[inline]
    pub fn into_parts(self) -> (&'a View, Owner) {
        (self.view, self.owner)
    }

    /// The same with a copy of the description.
    pub fn into_source(self) -> Source {
        Source { view: self.view.clone(), owner: self.owner }
    }
}

/// A place where memory is described once, and stays described until it is handed over.
#[derive(Default)]
pub struct Slot {
    view: View,
    owner: Option<Owner>,
}

impl Slot {
    /// Describes the memory of an owner in place. Where `describe` fails, the slot is empty.
    ///
    /// # Safety
    ///
    /// What `describe` describes is valid as long as the owner lives, as for [`Source::new`].
    ///
    /// # Errors
    ///
    /// What `describe` gives.
    #[inline]
    pub unsafe fn describe<E>(
        &mut self,
        owner: Owner,
        describe: impl FnOnce(&mut View) -> Result<(), E>,
    ) -> Result<(), E> {
        self.owner = None;
        describe(&mut self.view)?;
        self.owner = Some(owner);
        Ok(())
    }

    /// As [`Slot::describe`], for an owner that is asked for the description.
    #[inline]
    pub(super) unsafe fn describe_by<O, E>(
        &mut self,
        owner: O,
        wrap: impl FnOnce(O) -> Owner,
        describe: impl FnOnce(&O, &mut View) -> Result<(), E>,
    ) -> Result<(), E> {
        self.owner = None;
        describe(&owner, &mut self.view)?;
        self.owner = Some(wrap(owner));
        Ok(())
    }

    /// Puts memory here.
    pub fn set(&mut self, Source { view, owner }: Source) {
        *self = Slot { view, owner: Some(owner) };
    }

    /// Takes the memory out again; `None` if there is none.
    pub fn take(&mut self) -> Option<Source> {
        let owner = self.owner.take()?;
        Some(Source { view: std::mem::take(&mut self.view), owner })
    }

    /// Hands the memory over; `None` if there is none.
    #[inline]
    pub fn hand_over(&mut self) -> Option<Outgoing<'_>> {
        Some(Outgoing { view: &self.view, owner: self.owner.take()? })
    }

    /// Hands the memory over and keeps it too, which takes an owner that is a Python object; `None` if it
    /// is another one.
    #[inline]
    pub fn share(&mut self, py: pyo3::Python<'_>) -> Option<Outgoing<'_>> {
        let Some(Owner::Object(held)) = &self.owner else { return None };
        Some(Outgoing { view: &self.view, owner: Owner::Object(held.clone_ref(py)) })
    }

    /// Forbids writing, where `read_only` says so.
    #[inline]
    pub fn restrict(&mut self, read_only: bool) {
        self.view.restrict(read_only);
    }

    /// The description.
    #[inline]
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Who keeps the memory alive.
    #[inline]
    pub fn owner(&self) -> Option<&Owner> {
        self.owner.as_ref()
    }
}

/// Memory that several sources are made of.
pub struct SharedSource {
    view: View,
    owner: Arc<Mutex<Owner>>,
}

impl SharedSource {
    /// The description.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The memory, which lives as long as this and every source.
    pub fn source(&self) -> Source {
        Source { view: self.view.clone(), owner: Owner::Shared(self.owner.clone()) }
    }
}

impl From<Source> for SharedSource {
    fn from(source: Source) -> SharedSource {
        let Source { view, owner } = source;
        SharedSource { view, owner: Arc::new(Mutex::new(owner)) }
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

    #[test]
    fn a_description_that_fails_leaves_the_slot_empty() {
        let mut slot = Slot::default();
        slot.set(Source::from_slice(&[1_u8, 2], &[2]).unwrap());
        let owner = Owner::Value(Box::new(()));
        // SAFETY: nothing is described.
        let done = unsafe { slot.describe(owner, |_| Err(())) };
        assert!(done.is_err() && slot.owner().is_none() && slot.take().is_none());
    }

    #[test]
    fn memory_is_handed_over_once() {
        let mut slot = Slot::default();
        slot.set(Source::from_slice(&[1_u8, 2], &[2]).unwrap());
        assert!(slot.hand_over().is_some());
        assert!(slot.hand_over().is_none() && slot.take().is_none());
    }
}
