//! Memory that is described where it stays, on the way from one framework to another.

use super::{Handle, Outgoing, Owner, Source, expect_room};
use crate::memory::view::View;
use arraybridge_host::buffer::HostBuffer;
use arraybridge_host::dtype::DType;

/// A place in which memory is described, and from which it is handed over without moving the description.
#[derive(Default)]
pub struct Slot {
    view: View,
    owner: Option<Owner>,
}

impl Slot {
    /// Describes the memory of an owner in place. If `describe` fails, the slot is empty.
    ///
    /// # Safety
    ///
    /// The memory that `describe` describes is valid as long as the owner lives, as for [`Source::new`].
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

    /// Does what [`Slot::describe`] does, for an owner that describes its memory itself.
    ///
    /// # Safety
    ///
    /// The conditions of [`Slot::describe`].
    #[inline]
    pub unsafe fn describe_by<O: Handle, E>(
        &mut self,
        owner: O,
        describe: impl FnOnce(&O, &mut View) -> Result<(), E>,
    ) -> Result<(), E> {
        self.owner = None;
        describe(&owner, &mut self.view)?;
        self.owner = Some(owner.into());
        Ok(())
    }

    /// Replaces the memory by a buffer with an array of the same shape in row-major order.
    ///
    /// # Safety
    ///
    /// The elements are written before anybody reads them.
    ///
    /// # Panics
    ///
    /// Panics if the buffer is too small.
    pub unsafe fn set_buffer(&mut self, mut buffer: HostBuffer, dtype: DType) {
        expect_room(&buffer, dtype, self.view.shape());
        // SAFETY: the buffer has the bytes of the contiguous array, and is the owner.
        unsafe { self.view.set_contiguous(buffer.as_mut_ptr(), dtype) };
        self.owner = Some(Owner::Buffer(buffer));
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

    /// Hands the memory over with another owner, and keeps it here too.
    ///
    /// # Safety
    ///
    /// The memory is valid as long as that owner lives, as for [`Source::new`].
    #[inline]
    pub unsafe fn share(&self, owner: Owner) -> Outgoing<'_> {
        Outgoing { view: &self.view, owner }
    }

    /// Forbids writing if `read_only` is true.
    #[inline]
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
    pub fn owner(&self) -> Option<&Owner> {
        self.owner.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_that_fails_leaves_the_slot_empty() {
        let mut slot = Slot::default();
        slot.set(Source::from_slice(&[1_u8, 2], &[2]).unwrap());
        let owner = Owner::Value(Box::new(()));
        // SAFETY: `describe` describes nothing.
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
