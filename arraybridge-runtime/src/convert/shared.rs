//! Host memory that a framework takes as it is.
//!
//! The plan for a plain array depends on nothing but the two frameworks and the dtype. Where it was to share the
//! memory, it is not made again: planning takes an eighth of the instructions of such a conversion. Everything
//! that a program can change meanwhile is asked again, and whatever differs takes the long way.

use std::sync::atomic::{AtomicU32, Ordering};

use dlpark::ffi::DLDevice;
use pyo3::prelude::*;

use super::commitment::Commitment;
use super::execute::imported;
use super::pair::Pair;
use super::plan::{Plan, Route, Step, admit};
use super::slot::{Input, Slot};
use super::source::Reader;
use super::trials::importer;
use crate::framework::detect::{Class, Role};
use crate::framework::device::{Device, Placement};
use crate::framework::endpoints::Endpoints;
use crate::framework::generated::MemoryType;
use crate::framework::loaded::{self, Loaded};
use crate::framework::spec::{DType, Framework, Strides};
use crate::framework::warnings;
use crate::interpreter::error::{Error, Result};

const N: usize = MemoryType::CAPACITY;

/// The dtypes whose plain arrays are shared, by source and target.
static SHARED: [[AtomicU32; N]; N] = [const { [const { AtomicU32::new(0) }; N] }; N];

/// The dtypes of which plain memory that nobody else has is handed over, by target.
static DELIVERED: [AtomicU32; N] = [const { AtomicU32::new(0) }; N];

fn known(Endpoints { source, target }: Endpoints) -> &'static AtomicU32 {
    &SHARED[source.memory_type.index()][target.memory_type.index()]
}

/// Notes the plan for what is in a slot: an array's memory, or memory that nobody else has. Nothing was asked for, and
/// the target was tried out with the dtype.
pub(super) fn remember(endpoints: Endpoints, input: &Input<'_, '_>, slot: &Slot, plan: &Plan) {
    let known = match input {
        Input::Memory(Some(_)) => known(endpoints),
        Input::Memory(None) if slot.private => &DELIVERED[endpoints.target.memory_type.index()],
        _ => return,
    };
    let dtype = slot.memory.view().dtype();
    if plan.route == Route::Share
        && matches!(plan.steps, [Step::Import])
        && is_constant(endpoints.target, dtype)
        && is_usual(endpoints, slot)
    {
        known.fetch_or(1 << dtype as u32, Ordering::Relaxed);
    }
}

/// Returns whether a framework has a dtype at all times, whatever else is installed or switched on.
fn is_constant(framework: &Framework, dtype: DType) -> bool {
    dtype.is_numpy() && framework.missing.iter().all(|missing| !missing.dtypes.contains(dtype))
}

/// Returns whether the memory is as its framework usually has it: nothing of it but the dtype
/// matters to the target.
#[inline]
fn is_usual(Endpoints { source, target }: Endpoints, slot: &Slot) -> bool {
    let (view, Some(import)) = (slot.memory.view(), &target.import) else { return false };
    view.device() == DLDevice::CPU
        && view.is_read_only() == source.immutable
        && !view.is_swapped()
        // A scalar may be one that its framework keeps.
        && view.ndim() > 0
        && target.dtypes.contains(view.dtype())
        && admit(target, view.ndim(), view.is_empty()).is_ok()
        && target.shapes.is_empty()
        && view.starts_aligned()
        && view.data() as usize & (import.align - 1) == 0
        && view.layout() == Strides::Contiguous
}

/// Shares an array of which nothing else is asked, if that was the plan for another one like it. Otherwise the
/// slot has what was found out about the array so far.
#[inline]
pub(super) fn convert<'py>(
    endpoints: Endpoints,
    data: &Bound<'py, PyAny>,
    class: &Class,
    slot: &mut Slot,
) -> Option<Result<Bound<'py, PyAny>>> {
    let dtypes = known(endpoints).load(Ordering::Relaxed);
    if dtypes == 0 || !matches!(class.role, Role::Array) {
        return None;
    }
    let (py, Endpoints { source, target }) = (data.py(), endpoints);
    let reader = Reader { loaded: loaded::if_loaded(py, source)?, target };
    let target = loaded::if_loaded(py, target)?;
    if !reader.describe_quickly(data, class, slot) || !goes(endpoints, target, dtypes, slot) {
        return None;
    }
    if source.immutable
        && target.framework.can_be_written()
        && let Err(warning) = warnings::shared_immutable(py, endpoints)
    {
        return Some(Err(warning));
    }
    match given(Pair { source, target }, slot) {
        Ok(array) => Some(Ok(array)),
        // A refusal: the plan has another way, which starts with the array.
        Err(Error::Conversion(_)) => {
            *slot = Slot::default();
            None
        }
        Err(error) => Some(Err(error)),
    }
}

/// Hands over memory that nobody else has and of which nothing else is asked, if that was the plan for other memory
/// like it. `endpoints` has NumPy as the source.
pub(super) fn deliver<'py>(
    py: Python<'py>,
    endpoints: Endpoints,
    slot: &mut Slot,
) -> Option<Result<Bound<'py, PyAny>>> {
    let Endpoints { source, target } = endpoints;
    let dtypes = DELIVERED[target.memory_type.index()].load(Ordering::Relaxed);
    let target = loaded::if_loaded(py, target)?;
    goes(endpoints, target, dtypes, slot).then(|| given(Pair { source, target }, slot))
}

/// Returns whether the memory in a slot goes to the target as it is, which it does for these dtypes.
#[inline]
fn goes(endpoints: Endpoints, target: Loaded<'_>, dtypes: u32, slot: &Slot) -> bool {
    dtypes & (1 << slot.memory.view().dtype() as u32) != 0
        && is_usual(endpoints, slot)
        && target.default_device().ok() == Some(Device::Host)
}

#[inline]
fn given<'py>(pair: Pair<'py>, slot: &mut Slot) -> Result<Bound<'py, PyAny>> {
    let array = imported(pair, importer(pair.target), slot)?;
    Commitment::of(pair.target, Placement::Auto, None).settle(pair.target, array)
}
