//! Conversions that follow their plan.

use pyo3::prelude::*;

use super::carry_out::{carry_out, convert_object};
use super::likeness::wrapped;
use super::likes::expect_shared;
use super::pair::{Pair, class_of};
use super::plan::Route;
use super::prepare::{Foreign, Reads, decide, prepare};
use super::record::{Record, within};
use super::registry::Converter;
use super::request::{Asked, Request};
use super::slot::{Input, Opened, Slot};
use super::{registry, shared, trace};
use crate::framework::detect::{self, Class};
use crate::framework::endpoints::Endpoints;
use crate::framework::generated::MemoryType;
use crate::framework::spec::Framework;
use crate::interpreter::error::Result;
use arraybridge_tensor::cuda::driver;

/// Does what [`convert_to`](super::convert_to) does, also with a dtype, by the plan alone.
pub(super) fn convert_by_plan<'py>(
    data: &Bound<'py, PyAny>,
    target: &'static Framework,
    request: &Request,
) -> Result<Bound<'py, PyAny>> {
    let Some(class) = detect::class_of(data) else {
        return match wrapped(data)? {
            None => convert_object(data, target, request),
            Some((name, None)) => within(name, || convert_object(data, target, request)),
            Some((name, Some(array))) => {
                let array = expect_shared(array, target, request.copy)?;
                within(name, || convert_by_plan(&array, target, request))
            }
        };
    };
    if class.framework.is(target) && request.keeps_own_arrays() && !trace::is_tracing() {
        return Ok(data.clone());
    }
    let converter = registry::converter(class.framework, target);
    converter.convert(data, &class, request)
}

impl Converter {
    /// Converts an array of a class of the source's.
    fn convert<'py>(
        &self,
        data: &Bound<'py, PyAny>,
        class: &Class,
        request: &Request,
    ) -> Result<Bound<'py, PyAny>> {
        let Converter { source, target } = *self;
        let (ends, mut slot) = (Endpoints { source, target }, Slot::default());
        let asked = Asked { data, class, request };
        if request.is_empty(data.py())
            && !trace::is_tracing()
            && let Some(done) = shared::convert(ends, data, class, &mut slot)
        {
            return done;
        }
        carry_out(data.py(), ends, || prepare(ends, &asked, &mut slot)).map(|(array, _)| array)
    }
}

/// Does what [`convert_by_plan`] does, and says which route was taken.
pub fn convert_routed<'py>(
    data: &Bound<'py, PyAny>,
    target: &'static Framework,
    request: &Request,
) -> Result<(Bound<'py, PyAny>, Route)> {
    let (class, mut slot) = (class_of(data)?, Slot::default());
    let ends = Endpoints { source: class.framework, target };
    let asked = Asked { data, class: &class, request };
    carry_out(data.py(), ends, || prepare(ends, &asked, &mut slot))
}

/// Describes what [`convert_by_plan`] would do, without doing it.
pub(super) fn explain_by_plan(
    data: &Bound<'_, PyAny>,
    target: &'static Framework,
    request: &Request,
) -> Result<Record> {
    if detect::class_of(data).is_none()
        && let Some((name, array)) = wrapped(data)?
    {
        return within(name, || match array {
            None => explain_as_it_is(data, target, request),
            Some(array) => {
                explain_by_plan(&expect_shared(array, target, request.copy)?, target, request)
            }
        });
    }
    explain_as_it_is(data, target, request)
}

/// Describes the conversion of an object that is not taken apart.
fn explain_as_it_is(
    data: &Bound<'_, PyAny>,
    target: &'static Framework,
    request: &Request,
) -> Result<Record> {
    let (class, mut slot) = (detect::class_of(data), Slot::default());
    let source = class.map_or(MemoryType::Numpy.framework(), |class| class.framework);
    let ends = Endpoints { source, target };
    let _context = ends.change_current().then(driver::keep_current);
    let prepared = match &class {
        Some(class) => prepare(ends, &Asked { data, class, request }, &mut slot),
        None => Foreign { data, target, request }.prepare(&mut slot, Reads::Later),
    };
    let prepared = prepared.map_err(|error| ends.name_in(error))?;
    Ok(prepared.description().record(&prepared.plan, 0))
}

/// Makes an array of `target` of host memory that no framework's array describes. With `private`
/// nobody else has the memory, so that the target may take it whatever it does with it.
pub fn deliver<'py>(
    py: Python<'py>,
    opened: Opened,
    target: &'static Framework,
    request: &Request,
) -> Result<Bound<'py, PyAny>> {
    let ends = Endpoints { source: MemoryType::Numpy.framework(), target };
    let mut slot = Slot::default();
    slot.set(opened);
    if slot.private
        && request.is_empty(py)
        && !trace::is_tracing()
        && let Some(done) = shared::deliver(py, ends, &mut slot)
    {
        return done.map_err(|error| ends.name_in(error));
    }
    carry_out(py, ends, || decide(Pair::of(py, ends)?, Input::Memory(None), &mut slot, request))
        .map(|(array, _)| array)
}
