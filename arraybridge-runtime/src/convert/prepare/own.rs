//! Conversions of arrays of the target's own framework.

use std::cell::LazyCell;

use super::decide::{casts, target_at};
use crate::convert::available::missing_dtype;
use crate::convert::commitment::Commitment;
use crate::convert::errors::{self, copy_required};
use crate::convert::execute::Prepared;
use crate::convert::pair::{Pair, class_of};
use crate::convert::plan::{self, Plan, Refusal, Route, Step, Steps, Wish};
use crate::convert::request::Asked;
use crate::convert::slot::{Input, Slot};
use crate::convert::source::{self, Reader};
use crate::convert::trial::Trial;
use crate::framework::detect::{self, Role};
use crate::framework::device::{Device, Placement};
use crate::framework::loaded;
use crate::framework::spec::{DType, Framework, Memory, Strides};
use crate::interpreter::error::Result;

/// Does what `prepare` does, for an array of the target's own framework. It may be anything that
/// its framework calls an array, and is not looked into unless something is asked for.
pub(in crate::convert) fn prepare_own<'a, 'py>(
    target: &'static Framework,
    asked: &Asked<'_, 'py>,
    slot: &'a mut Slot,
) -> Result<Prepared<'a, 'py>> {
    let Asked { data, class, request } = *asked;
    let target = loaded::load(data.py(), target)?;
    let reader = Reader { loaded: target, target: target.framework };
    let here = match target.framework.memory {
        Memory::Host => Device::Host,
        // An array that is traced is nowhere.
        _ if request.keeps_own_arrays() && !request.for_writing => Device::Host,
        _ => reader.located(data)?,
    };
    let device = match request.placement {
        Placement::Auto => here,
        wanted => target.resolve(target.framework, here, wanted)?,
    };
    // Only a cast needs to know them.
    let from = request.cast.dtype().and_then(|_| target.dtype(data));
    let is_recorded = LazyCell::new(|| target.records(data));
    let wish = match from {
        Some(dtype) => {
            let wish = request.wish(target, dtype)?;
            // A gradient has no meaning in eight bits, and frameworks do not clip there as ours do.
            let smooth = |dtype: DType| dtype.is_inexact() && dtype.size() > 1;
            let is_smooth = smooth(dtype) && wish.cast.is_some_and(smooth);
            Wish { recorded: is_smooth && *is_recorded, ..wish }
        }
        None => Wish { cast: request.cast.dtype(), ..request.wish_to_copy(target.py()) },
    };
    let mut holds = target_at(target, device, here, wish.cast.unwrap_or(DType::Bool))?;
    let host = target.chosen_host(request.placement)?;
    if host.is_some() {
        let found = target.host_of(data).map_err(|error| reader.failed(data, error))?;
        holds.elsewhere = found != host;
    }
    // A gradient that ends is warned of.
    if let (Some(from), Some(to), Device::Accelerator(_)) = (from, wish.cast, device)
        && !request.cast.is_narrowing()
        && !*is_recorded
    {
        holds.casts = casts(target, here, (from, to))?;
    }
    let plan = plan::within(&holds, here, &wish).map_err(|refusal| match (refusal, wish.cast) {
        (Refusal::CopyRequired(why), _) => copy_required(target.framework, request, why),
        (_, cast) => missing_dtype(target, cast.unwrap_or(DType::Bool)),
    })?;
    if let Some(dtype) = wish.cast {
        let trial = Trial { target, importer: plan.importer, device, dtype };
        trial.of_steps(plan.steps, Strides::Contiguous)?;
    }
    let missed = request.placement.is_missed(target.framework, device);
    let input = match plan.route {
        Route::Keep => Input::Array(data.clone()),
        _ => own_input(&reader, asked, &plan, slot)?,
    };
    let commitment = match host.is_some() || is_read(plan.steps) {
        true => {
            let other = matches!(class.role, Role::Array).then_some(data);
            Commitment::of(target, request.placement, other)
        }
        // The framework's own operation keeps what it knows of the array.
        false => Commitment::Placed,
    };
    let is_narrowed = false;
    let pair = Pair { source: target.framework, target };
    Ok(Prepared { pair, plan, input, slot, missed, is_narrowed, commitment, host })
}

/// Returns whether the memory of an array of the target's own framework is read, rather than copied
/// or moved by it.
fn is_read(steps: Steps) -> bool {
    matches!(steps, [Step::Gather | Step::Download, ..])
}

/// The input of the plan for an array of the target's own framework: its memory, if that is going
/// to be read, or else the array, for the framework's own operations.
fn own_input<'a, 'py>(
    reader: &Reader<'py>,
    asked: &Asked<'_, 'py>,
    plan: &Plan,
    slot: &mut Slot,
) -> Result<Input<'a, 'py>> {
    let loaded = reader.loaded;
    let (mut data, mut class) = (asked.data.clone(), *asked.class);
    if let Role::Value(op) = class.role {
        data = source::unwrap_value(&data, op)?;
        class = class_of(&data)?;
    }
    let is_read = is_read(plan.steps);
    match class.role {
        Role::Refused(why) if is_read || !detect::is_derived(loaded.framework, &data) => {
            Err(errors::refused(loaded.framework, why, &data))
        }
        _ if is_read => Ok(
            match reader.gather_or_make(&Asked { data: &data, class: &class, ..*asked }, slot)? {
                None => Input::Memory(None),
                Some(array) => Input::Array(array),
            },
        ),
        _ => match loaded.released(&data) {
            Some(reason) => Err(errors::refused_by_guard(loaded.framework, reason)),
            None => Ok(Input::Array(data)),
        },
    }
}
