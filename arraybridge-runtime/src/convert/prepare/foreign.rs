//! Conversions of objects of no framework.

use dlpark::ffi::DLDevice;
use pyo3::prelude::*;

use super::decide::decide;
use crate::convert::execute::Prepared;
use crate::convert::foreign::{described_in_place, open_at, place_and_memory};
use crate::convert::likeness::{Likeness, likeness, see};
use crate::convert::pair::Pair;
use crate::convert::plan::{Access, Facts, Why};
use crate::convert::request::{Cast, Request};
use crate::convert::slot::{Described, Input, Opened, Slot};
use crate::convert::{errors, libraries};
use crate::framework::device::{self, Device, Placement};
use crate::framework::endpoints::Endpoints;
use crate::framework::generated::MemoryType;
use crate::framework::spec::Framework;
use crate::interpreter::error::{Error, Result};

/// The time to read an object that has to read a file for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::convert) enum Reads {
    /// Now: the conversion follows.
    Now,
    /// Not yet: only what is going to be done is asked for.
    Later,
}

/// An object of no framework, and what is asked of it. It counts as one of NumPy's: that is what it can be seen as on
/// the host.
#[derive(Clone, Copy)]
pub(in crate::convert) struct Foreign<'a, 'py> {
    pub data: &'a Bound<'py, PyAny>,
    pub target: &'static Framework,
    pub request: &'a Request,
}

impl<'a, 'py> Foreign<'a, 'py> {
    /// The frameworks of the conversion.
    pub fn ends(self) -> Endpoints {
        Endpoints { source: MemoryType::Numpy.framework(), target: self.target }
    }

    fn pair(self) -> Result<Pair<'py>> {
        Pair::of(self.data.py(), self.ends())
    }

    /// Finds out what the object is like, and makes the plan.
    pub fn prepare(self, slot: &'a mut Slot, reads: Reads) -> Result<Prepared<'a, 'py>> {
        let Foreign { data, target, request } = self;
        let is_cast = request.cast != Cast::None;
        match likeness(data) {
            Likeness::None | Likeness::Scalar | Likeness::Instance => {
                return Err(errors::not_an_array(data, target.name));
            }
            Likeness::Exporter { is_seen } => match place_and_memory(data) {
                Ok((place, opened)) => {
                    return self.exporter(place, opened, slot);
                }
                // What does not hand out its memory may still give NumPy its values.
                Err(Error::Conversion(error)) if is_seen => {
                    let seen = see(data, target, is_cast).map_err(|mut seen| {
                        if let Error::Conversion(seen) = &mut seen {
                            seen.reason = format!("{}; {}", error.reason, seen.reason);
                        }
                        seen
                    })?;
                    slot.set(seen.opened()?);
                    slot.made = seen.made.then_some(Why::Seen);
                }
                Err(error) => return Err(error),
            },
            Likeness::Lazy | Likeness::Seen | Likeness::Buffer | Likeness::Wrapper => {
                if reads == Reads::Later
                    && let Some((dtype, shape)) = libraries::described(data)
                {
                    let facts = Facts::of_file(dtype, &shape);
                    slot.describe(Described { facts, shape: shape.as_slice().into() });
                    return decide(self.pair()?, Input::Array(data.clone()), slot, request);
                }
                let seen = see(data, target, is_cast)?;
                slot.set(seen.opened()?);
                slot.made = seen.made.then_some(Why::Seen);
            }
        }
        slot.access = Access::Seen;
        decide(self.pair()?, Input::Memory(None), slot, request)
    }

    /// Makes the plan for the memory of an exporter, which is not read.
    fn exporter(
        self,
        place: DLDevice,
        opened: Option<Opened>,
        slot: &'a mut Slot,
    ) -> Result<Prepared<'a, 'py>> {
        let Foreign { data, request, .. } = self;
        let opened = match (opened, device::of_memory(place)) {
            (Some(opened), _) => opened,
            (None, here) => match described_in_place(data, place) {
                Ok(described) => {
                    let facts =
                        Facts { device: here, access: Access::Protocol, ..described.facts() };
                    let shape = described.source.view().shape().into();
                    slot.describe(Described { facts, shape });
                    return decide(self.pair()?, Input::Array(data.clone()), slot, request);
                }
                // What it is can be learned from a copy on the host alone.
                Err(Error::Conversion(_)) => {
                    let opened = open_at(data, place)?;
                    return self.downloaded(here, opened, slot);
                }
                Err(error) => return Err(error),
            },
        };
        slot.set(opened);
        slot.made = slot.private.then_some(Why::Exported);
        slot.access = Access::Protocol;
        decide(self.pair()?, Input::Memory(Some(data)), slot, request)
    }

    /// Makes the plan for memory that had to be downloaded from a device to learn what it is.
    fn downloaded(
        self,
        from: Device,
        opened: Opened,
        slot: &'a mut Slot,
    ) -> Result<Prepared<'a, 'py>> {
        let pair = self.pair()?;
        let device = pair.target.resolve(pair.source, from, self.request.placement)?;
        let request = Request { placement: Placement::On(device), ..*self.request };
        slot.set(opened);
        slot.access = Access::Protocol;
        slot.made = Some(Why::Device);
        let mut prepared = decide(pair, Input::Memory(None), slot, &request)?;
        prepared.plan.from = from;
        Ok(prepared)
    }
}
