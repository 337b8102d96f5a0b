//! Claimed memory, and whether it conflicts with other memory.

use super::super::User;
use arraybridge_host::layout::{self, Dims};
use arraybridge_host::overlap::{Strided, overlap};

/// A conflict: who has the memory, and whether it is certain.
pub(super) type Found = (Claimant, bool);

/// Claimed memory.
pub(super) struct ClaimedMemory {
    pub by: Claimant,
    pub range: (usize, usize),
    /// The elements, unless all of the range is claimed.
    pub elements: Option<Box<Elements>>,
}

/// The one who claims memory, and whether to write to it.
#[derive(Clone, Copy)]
pub(super) struct Claimant {
    pub ticket: u64,
    pub user: User,
    pub writes: bool,
    /// The thread that made the claim.
    pub thread: usize,
}

/// A description, copied since a forgotten claim outlives what it was made from.
pub(super) struct Elements {
    address: usize,
    shape: Dims<usize>,
    strides: Dims<isize>,
    size: usize,
}

impl ClaimedMemory {
    /// Who claims this if it conflicts with wanted memory, and whether that is certain.
    #[inline]
    pub fn conflict(
        &self,
        memory: Strided<'_>,
        (low, end): (usize, usize),
        writes: bool,
    ) -> Option<Found> {
        let near = self.range.0 < end && low < self.range.1;
        if !near || !(writes || self.by.writes) {
            return None;
        }
        let answer = self.overlaps(memory);
        (answer != Some(false)).then_some((self.by, answer.is_some()))
    }

    /// Returns whether the memory has a byte in common with this; `None` if that takes too long to
    /// decide.
    #[cold]
    fn overlaps(&self, memory: Strided<'_>) -> Option<bool> {
        let (low, end) = self.range;
        match self.elements.as_deref() {
            Some(elements) => overlap(memory, elements.strided()),
            None => {
                overlap(memory, Strided { address: low, shape: &[], strides: &[], size: end - low })
            }
        }
    }
}

impl Elements {
    pub fn strided(&self) -> Strided<'_> {
        let Elements { address, shape, strides, size } = self;
        Strided { address: *address, shape, strides, size: *size }
    }

    #[cold]
    pub fn copied(Strided { address, shape, strides, size }: Strided<'_>) -> Box<Elements> {
        let (shape, strides) = (Dims::from_slice(shape), Dims::from_slice(strides));
        Box::new(Elements { address, shape, strides, size })
    }
}

/// The range of the memory, and whether all of it is claimed: whether there are as many bytes as in the range,
/// which nearly always means that the elements fill it. Only elements that share bytes with each other can leave
/// gaps then, and the gaps are claimed too.
#[inline]
pub(super) fn span(memory: Strided<'_>) -> ((usize, usize), bool) {
    let Strided { address, shape, strides, size } = memory;
    // This is most of what is claimed.
    if let Some(bytes) = layout::contiguous_end(shape, strides, size)
        && let Some(end) = address.checked_add(bytes)
    {
        return ((address, end), true);
    }
    // A range that overflows is compared with everything.
    let (low, end) = memory.range().unwrap_or((0, usize::MAX));
    ((low, end), layout::contiguous_bytes(shape, size) == Some(end - low))
}
