//! Facts are gathered and a plan is made of them.

mod decide;
mod foreign;
mod own;

use pyo3::prelude::*;

use super::errors;
use super::execute::Prepared;
use super::pair::{Pair, class_of};
use super::request::Asked;
use super::slot::{Input, Slot};
use super::source::{self, Reader};
use crate::framework::detect::Role;
use crate::framework::endpoints::Endpoints;
use crate::framework::loaded;
use crate::framework::spec::{Framework, Op};
use crate::interpreter::error::Result;
use own::prepare_own;

pub(super) use decide::decide;
pub use decide::explain_refusal;
pub(super) use foreign::{Foreign, Reads};

/// Gathers the facts of an array and makes the plan.
pub(in crate::convert) fn prepare<'a, 'py>(
    ends: Endpoints,
    asked: &Asked<'a, 'py>,
    slot: &'a mut Slot,
) -> Result<Prepared<'a, 'py>> {
    if ends.source.is(ends.target) {
        return prepare_own(ends.target, asked, slot);
    }
    match asked.class.role {
        Role::Array => prepare_array(ends, asked.data, asked, slot),
        Role::Refused(why) => Err(errors::refused(ends.source, why, asked.data)),
        Role::Value(op) => prepare_value(ends.target, asked, op, slot),
    }
}

/// Does what `prepare` does, for the value in a wrapper. It may be of another framework, as the
/// value of a Keras variable can be.
#[cold]
fn prepare_value<'a, 'py>(
    target: &'static Framework,
    asked: &Asked<'a, 'py>,
    op: &Op<1>,
    slot: &'a mut Slot,
) -> Result<Prepared<'a, 'py>> {
    let value = source::unwrap_value(asked.data, op)?;
    let class = class_of(&value)?;
    let inside = Asked { data: &value, class: &class, request: asked.request };
    let ends = Endpoints { source: class.framework, target };
    let prepared = match class.role {
        _ if class.framework.is(target) => prepare_own(target, &inside, slot),
        Role::Refused(why) => Err(errors::refused(class.framework, why, &value)),
        _ => prepare_array(ends, asked.data, &inside, slot),
    };
    prepared.map_err(|error| ends.name_in(error))
}

/// Does what `prepare` does, for an array, or for the one in `object`.
#[inline(always)]
fn prepare_array<'a, 'py>(
    ends: Endpoints,
    object: &'a Bound<'py, PyAny>,
    asked: &Asked<'_, 'py>,
    slot: &'a mut Slot,
) -> Result<Prepared<'a, 'py>> {
    let (py, Endpoints { source, target }) = (object.py(), ends);
    let reader = Reader { loaded: loaded::load(py, source)?, target };
    let input = match reader.gather_or_make(asked, slot)? {
        None => Input::Memory(Some(object)),
        Some(array) => Input::Array(array),
    };
    decide(Pair::of(py, ends)?, input, slot, asked.request)
}
