//! Conversions of objects of no framework.

use pyo3::prelude::*;

use super::decide::decide;
use crate::convert::errors;
use crate::convert::execute::Prepared;
use crate::convert::foreign::{described_in_place, exports, in_place, open_at, place_of};
use crate::convert::pair::Pair;
use crate::convert::plan::{Access, Facts, Why};
use crate::convert::request::Request;
use crate::convert::slot::{Input, Opened, Slot};
use crate::framework::device::{self, Device, Placement};
use crate::framework::endpoints::Endpoints;
use crate::framework::generated::MemoryType;
use crate::framework::spec::Framework;
use crate::interpreter::error::{Error, Result};

/// Finds out where the memory is and what it looks like, which does not read it, and makes the plan.
/// The object counts as one of NumPy's: that is what it can be seen as on the host.
pub(in crate::convert) fn prepare_object<'a, 'py>(
    data: &'a Bound<'py, PyAny>,
    target: &'static Framework,
    request: &Request,
    slot: &'a mut Slot,
) -> Result<Prepared<'a, 'py>> {
    if !exports(data) {
        return Err(errors::not_an_array(data, target.name));
    }
    let pair = || Pair::of(data.py(), Endpoints { source: MemoryType::Numpy.framework(), target });
    let place = place_of(data)?;
    let opened = match device::of_memory(place) {
        Device::Host => in_place(data, place, None)?,
        here => match described_in_place(data, place) {
            Ok(described) => {
                let facts = Facts { device: here, access: Access::Protocol, ..described.facts() };
                let view = described.source.view();
                slot.described = Some((view.dtype(), view.shape().into()));
                slot.access = Access::Protocol;
                let input = Input::Array(data.clone());
                return decide(pair()?, input, slot, &facts, request);
            }
            // What it is can be learned from a copy on the host alone.
            Err(Error::Conversion(_)) => {
                let opened = open_at(data, place)?;
                return prepare_downloaded(pair()?, here, opened, request, slot);
            }
            Err(error) => return Err(error),
        },
    };
    slot.set(opened);
    slot.made = slot.private.then_some(Why::Exported);
    slot.access = Access::Protocol;
    let facts = slot.facts();
    decide(pair()?, Input::Memory(Some(data)), slot, &facts, request)
}

/// Makes the plan for memory that had to be downloaded from a device to learn what it is.
fn prepare_downloaded<'a, 'py>(
    pair: Pair<'py>,
    from: Device,
    opened: Opened,
    request: &Request,
    slot: &'a mut Slot,
) -> Result<Prepared<'a, 'py>> {
    let device = pair.target.resolve(pair.source, from, request.placement)?;
    let request = Request { placement: Placement::On(device), ..*request };
    slot.set(opened);
    slot.access = Access::Protocol;
    slot.made = Some(Why::Device);
    let facts = slot.facts();
    let mut prepared = decide(pair, Input::Memory(None), slot, &facts, &request)?;
    prepared.plan.from = from;
    Ok(prepared)
}
