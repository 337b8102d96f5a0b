//! Warnings about arrays. Python's filters decide which of them are shown, and how often.

use pyo3::prelude::*;

use crate::framework::endpoints::Endpoints;
use crate::framework::spec::{DType, Framework};
use crate::interpreter::error::{Result, warn, warn_often};
use crate::interpreter::fork;

/// The key of a warning about the two ends of a conversion.
fn key(Endpoints { source, target }: Endpoints) -> u64 {
    (source.memory_type.index() as u64) << 32 | target.memory_type.index() as u64
}

/// Says that memory of an immutable array is shared with a target whose arrays can be written to.
pub fn shared_immutable(py: Python<'_>, endpoints: Endpoints) -> Result<()> {
    let Endpoints { source, target } = endpoints;
    let text = || {
        format!(
            "this {} array shares the memory of an immutable {} array: writing into it changes \
             values that {} takes for constant. Use copy=True for an array that is safe to write \
             to, or copy=False to say that sharing is meant",
            target.title, source.title, source.title
        )
    };
    Ok(warn_often(py, "SharedImmutableMemoryWarning", key(endpoints), text)?)
}

/// Says that no gradient flows back through a converted array.
pub fn gradient_detached(py: Python<'_>, endpoints: Endpoints) -> Result<()> {
    let Endpoints { source, target } = endpoints;
    let text = || {
        format!(
            "this {} array requires a gradient and was detached to be read as a {} array: no \
             gradient flows back, and training learns nothing through it. Pass an array \
             without one, such as x.detach(), if that is intended, or call a function that is declared with differentiable=True",
            source.title, target.title
        )
    };
    Ok(warn_often(py, "GradientDetachedWarning", key(endpoints), text)?)
}

/// Says that floats of a trace, through which a gradient may flow, become integers by default.
#[cold]
pub fn gradient_cut(py: Python<'_>, function: &str, from: DType, to: DType) -> Result<()> {
    let text = format!(
        "{function}: its {from} result becomes {to} in a trace, which does not say whether a gradient is \
         computed. None flows through the integers. Use dtype_conversion=\"native\" to keep the result as \
         it is, or dtype_conversion=\"preserve\" if rounding is intended"
    );
    Ok(warn(py, "GradientDetachedWarning", text)?)
}

/// Says that values of an argument were clipped when it was cast.
///
/// # Errors
///
/// The warning itself, where the user's filters turn it into an exception.
#[cold]
pub fn clipped(py: Python<'_>, argument: &str, count: u64, from: DType, to: DType) -> Result<()> {
    let (values, were) = if count == 1 { ("value", "was") } else { ("values", "were") };
    let became = match (from.is_inexact(), to.is_inexact()) {
        (_, true) => "became infinite or NaN".to_owned(),
        (true, false) => format!("{were} clipped (NaN became 0)"),
        (false, false) => format!("{were} clipped"),
    };
    let text = format!(
        "{argument}: {count} {from} {values} did not fit {to} and {became}. Pass an array whose values fit"
    );
    Ok(warn(py, "ClippedValuesWarning", text)?)
}

/// Says that integers of an argument were rounded when it was cast to floats.
///
/// # Errors
///
/// The warning itself, where the user's filters turn it into an exception.
#[cold]
pub fn rounded(py: Python<'_>, argument: &str, count: u64, from: DType, to: DType) -> Result<()> {
    let (values, were) = if count == 1 { ("value", "was") } else { ("values", "were") };
    let text = format!(
        "{argument}: {count} {from} {values} {were} rounded, since {to} has {} significant bits. Pass an array \
         of {to}, or of smaller numbers",
        to.significand()
    );
    Ok(warn(py, "RoundedIntegersWarning", text)?)
}

/// Says that `gpu_id` was ignored because the framework finds no accelerator.
pub fn no_accelerator(py: Python<'_>, framework: &Framework) -> Result<()> {
    let is_lost = fork::has_lost_cuda() && framework.takes_cuda_memory();
    let text = || {
        let title = framework.title;
        let why = match is_lost {
            true => format!("{title} cannot use a GPU: {}. So", fork::LOST_CUDA),
            false => format!("{title} finds no accelerator on this machine, so"),
        };
        format!(
            "{why} gpu_id is ignored and arrays stay on the host. Use device=\"accelerator:0\" to make \
             this an error"
        )
    };
    let key = (framework.memory_type.index() as u64) << 1 | u64::from(is_lost);
    Ok(warn_often(py, "NoAcceleratorWarning", key, text)?)
}
