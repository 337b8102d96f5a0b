//! The decision, made of facts: whatever asks a framework happens here, the rest is the plan.

use crate::convert::available::{dtypes, missing_dtype, not_imported};
use crate::convert::commitment::Commitment;
use crate::convert::errors::copy_required;
use crate::convert::execute::Prepared;
use crate::convert::own_cast::OwnCast;
use crate::convert::pair::Pair;
use crate::convert::plan::{self, Facts, Importer, Refusal, Target};
use crate::convert::request::Request;
use crate::convert::shared;
use crate::convert::slot::{Input, Slot};
use crate::convert::trial::Trial;
use crate::convert::trials::{expect_shape, importer};
use crate::framework::device::Device;
use crate::framework::loaded::Loaded;
use crate::framework::spec::{DType, Strides};
use crate::interpreter::error::{Error, Failure, Result};
use arraybridge_host::cast::Scaling;

/// Makes the plan for what is known of an array, or of memory that no framework's array describes.
pub(in crate::convert) fn decide<'a, 'py>(
    pair: Pair<'py>,
    input: Input<'a, 'py>,
    slot: &'a mut Slot,
    request: &Request,
) -> Result<Prepared<'a, 'py>> {
    let (Pair { source, target }, facts) = (pair, slot.facts());
    let device = target.resolve(source, facts.device, request.placement)?;
    let wish = request.wish(target, facts.dtype)?;
    let dtype = wish.cast.unwrap_or(facts.dtype);
    let mut holds = target_at(target, device, facts.device, dtype)?;
    // Whether every value fits is counted by the kernels.
    if let (Some(to), Device::Accelerator(_)) = (wish.cast, device)
        && !request.cast.is_narrowing()
        && target.framework.import.is_some()
    {
        holds.casts = casts(target, facts.device, (facts.dtype, to))?;
    }
    let host = target.chosen_host(request.placement)?;
    // A public import leaves memory on the first of the host's devices alone.
    let depends_on_host = device == Device::Host
        && !matches!(holds.importer, Importer::Private(_))
        && target.has_several_hosts()?;
    holds.elsewhere = depends_on_host
        && match host {
            Some(host) => host > 0,
            None => !target.default_is_first_host()?,
        };
    let commitment = match (facts.device, device) {
        // The source's device says where it goes.
        (Device::Accelerator(_), Device::Accelerator(_)) => Commitment::Placed,
        // Memory of another order is shared on the device that it is bound to, or not at all.
        _ if wish.copy == Some(false) && facts.layout != Strides::Contiguous => Commitment::Placed,
        _ => Commitment::of(target, request.placement, None),
    };
    holds.free = commitment.is_free();
    let plan = plan::between(source, &holds, &facts, &wish)
        .map_err(|refusal| explain_refusal(target, &facts, request, refusal))?;
    expect_shape(target, || slot.shape())?;
    let trial = Trial { target, importer: plan.importer, device, dtype };
    if trial.of_steps(plan.steps, facts.layout)?
        && !depends_on_host
        && request.is_empty(target.py())
    {
        shared::remember(pair.ends(), &input, slot, &plan);
    }
    let missed = request.placement.is_missed(target.framework, device);
    let is_narrowed = request.cast.is_narrowing();
    Ok(Prepared { pair, plan, input, slot, missed, is_narrowed, commitment, host })
}

/// A framework as the target at a place; `dtype` is the one that is wanted there. It is asked about
/// its accelerators only if the source is on one, since asking can start its runtime.
#[inline(always)]
pub(in crate::convert) fn target_at(
    target: Loaded<'_>,
    device: Device,
    source: Device,
    dtype: DType,
) -> Result<Target> {
    let (framework, dtypes) = (target.framework, dtypes(target, dtype)?);
    let accelerators = match source {
        Device::Host => 0,
        Device::Accelerator(_) => target.accelerators(),
    };
    let importer = match device {
        Device::Host => importer(target),
        Device::Accelerator(_) => Importer::of(framework),
    };
    let not_imported = not_imported(target, dtype);
    let forgets_strides = target.forgets_strides();
    let new = Target::new(framework, device, importer);
    Ok(Target { dtypes, not_imported, accelerators, forgets_strides, ..new })
}

/// Returns whether the target has the dtype of an array on an accelerator, and casts it there exactly.
pub(in crate::convert) fn casts(
    target: Loaded<'_>,
    place: Device,
    (from, to): (DType, DType),
) -> Result<bool> {
    let Device::Accelerator(index) = place else { return Ok(false) };
    if target.framework.array.is_none()
        || index >= target.accelerators()
        || !dtypes(target, from)?.contains(from)
    {
        return Ok(false);
    }
    OwnCast { loaded: target, from, to, scaling: Scaling::Clamp, bounds: None }.is_exact_on(place)
}

/// The plan's refusal.
#[cold]
pub fn explain_refusal(
    loaded: Loaded<'_>,
    facts: &Facts,
    request: &Request,
    refusal: Refusal,
) -> Error {
    let framework = loaded.framework;
    let title = framework.title;
    match refusal {
        Refusal::Dtype => missing_dtype(loaded, request.cast.dtype().unwrap_or(facts.dtype)),
        Refusal::Ndim => {
            let (least, most) = framework.ndim;
            let reason = format!(
                "{title} holds arrays of {least} to {most} axes and this one has {}; reshape it, or \
                 convert it slice by slice",
                facts.ndim
            );
            framework.error(Failure::Array, "plan", reason)
        }
        Refusal::Empty => {
            let reason = format!("{title} cannot hold an array without elements");
            framework.error(Failure::Array, "plan", reason)
        }
        Refusal::CopyRequired(why) => copy_required(framework, request, why),
    }
}
