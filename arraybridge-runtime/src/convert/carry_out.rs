//! A conversion from its preparation to its record.

use pyo3::prelude::*;

use super::execute::Prepared;
use super::plan::Route;
use super::prepare::{Foreign, Reads};
use super::request::Request;
use super::slot::Slot;
use super::trace;
use crate::framework::device::Device;
use crate::framework::endpoints::Endpoints;
use crate::framework::loaded::{self, Loaded};
use crate::framework::spec::Framework;
use crate::interpreter::error::Result;
use arraybridge_tensor::cuda::driver::{self, PreviousContext};

/// Prepares a conversion, runs it, and records it where somebody asks for that. Gives back the route
/// that was taken in the end. An error that knows one framework gets both.
pub(super) fn carry_out<'a, 'py: 'a>(
    py: Python<'py>,
    ends: Endpoints,
    prepare: impl FnOnce() -> Result<Prepared<'a, 'py>>,
) -> Result<(Bound<'py, PyAny>, Route)> {
    let start = trace::start();
    let context = ends.change_current().then(driver::keep_current).flatten();
    let current = context.as_ref().and_then(|context| lasting_device(py, ends, context));
    let prepared = match prepare() {
        Ok(prepared) => prepared,
        Err(error) => return Err(ends.name_in(error)),
    };
    let (pair, plan) = (prepared.pair, prepared.plan);
    let traced = start.map(|start| (start, prepared.description()));
    let (result, attempt) = prepared.run(current).map_err(|error| pair.ends().name_in(error))?;
    if let Some((start, description)) = traced {
        trace::push(py, description.record(&plan, attempt), start);
    }
    // An accelerator of another kind has no context, and CUDA's device of its index may be unused.
    if let (Some(_), None, Device::Accelerator(index)) = (&context, current, plan.from)
        && ends.source.takes_cuda_memory()
    {
        driver::keep_context(index);
    }
    Ok((result, plan.attempt(attempt).1))
}

/// CUDA's current device, where the preparation cannot change it. XLA does so when it starts.
fn lasting_device(py: Python<'_>, ends: Endpoints, context: &PreviousContext) -> Option<usize> {
    let has_started = |framework: &'static Framework| {
        !framework.changes_current()
            || loaded::if_loaded(py, framework).is_some_and(Loaded::has_counted_any)
    };
    context.device().filter(|_| has_started(ends.source) && has_started(ends.target))
}

/// Converts an object of no framework that is like an array.
pub(super) fn convert_object<'py>(
    data: &Bound<'py, PyAny>,
    target: &'static Framework,
    request: &Request,
) -> Result<Bound<'py, PyAny>> {
    let (mut slot, object) = (Slot::default(), Foreign { data, target, request });
    carry_out(data.py(), object.ends(), || object.prepare(&mut slot, Reads::Now))
        .map(|(array, _)| array)
}
