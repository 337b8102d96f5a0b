//! Copies that a function has written to instead of the caller's arrays.

use pyo3::prelude::*;
use pyo3::types::PyEllipsis;

use super::{ArgumentKey, ArgumentSlot, ArgumentSlots, names};
use crate::declared::definition::{Definition, FunctionKind};
use arraybridge_runtime::convert::{self, Request};
use arraybridge_runtime::framework::endpoints::Endpoints;
use arraybridge_runtime::framework::loaded;
use arraybridge_runtime::framework::spec::Framework;
use arraybridge_runtime::framework::writes::{has_changed, version};
use arraybridge_runtime::interpreter::error::{Failure, Result};
use arraybridge_runtime::memory::numpy_array;

/// A copy of a caller's array that the function receives.
pub struct WrittenCopy<'py> {
    /// The index of the array's slot.
    pub index: usize,
    copy: Bound<'py, PyAny>,
    /// The version of the copy before the call, if its framework counts writes.
    version: Option<i64>,
}

impl<'py> WrittenCopy<'py> {
    /// Notes a copy, if it could be told whether the function writes to it. A declaration that asks for copies, or for
    /// another dtype, says that the function has arrays of its own.
    pub fn new(
        definition: &Definition,
        target: &'static Framework,
        (index, slot): (usize, &ArgumentSlot<'py>),
        copy: &Bound<'py, PyAny>,
    ) -> Option<WrittenCopy<'py>> {
        let options = &definition.options;
        let is_own = options.copy == Some(true) || options.input_dtype.is_some();
        let is_fixed = slot.class.framework.immutable || is_read_only(&slot.value);
        if is_own || is_fixed || !slot.class.is_array() || definition.kind != FunctionKind::Plain {
            return None;
        }
        let version = version(target, copy);
        let is_declared = is_declared(definition, &slot.key);
        let copy = copy.clone();
        (is_declared || version.is_some()).then_some(WrittenCopy { index, copy, version })
    }

    /// Writes the copy back, if the function has written to it.
    pub fn write_back(
        &self,
        definition: &Definition,
        target: &'static Framework,
        slots: &ArgumentSlots<'py>,
    ) -> Result<()> {
        let (slot, py) = (&slots[self.index], self.copy.py());
        let is_declared = is_declared(definition, &slot.key);
        if !is_declared
            && !self.version.is_some_and(|before| has_changed(target, &self.copy, before))
        {
            return Ok(());
        }
        let framework = slot.class.framework;
        let loaded = loaded::load(py, framework)?;
        let placement = loaded.placement_of(&slot.value)?;
        let cast = loaded.dtype(&slot.value).into();
        let request = Request { placement, cast, ..Request::default() };
        let values = convert::convert_to(&self.copy, framework, &request)?;
        Ok(slot.value.set_item(PyEllipsis::get(py), values)?)
    }
}

/// Refuses an array that the function is declared to write to, and that nobody can write to.
///
/// # Errors
///
/// [`Failure::Copy`].
pub fn check(
    definition: &Definition,
    target: &'static Framework,
    slots: &ArgumentSlots<'_>,
) -> Result<()> {
    if definition.options.writes.is_empty() {
        return Ok(());
    }
    for slot in slots.iter().filter(|slot| is_declared(definition, &slot.key)) {
        let source = slot.class.framework;
        let why = if source.immutable {
            format!("{} arrays never change", source.title)
        } else if is_read_only(&slot.value) {
            "the array is read-only".to_owned()
        } else {
            continue;
        };
        let reason =
            format!("the function writes to it, but {why}; pass an array that can be written to");
        let error = Endpoints { source, target }.error(Failure::Copy, "write", reason);
        return Err(names::in_argument(definition, &slot.key, error));
    }
    Ok(())
}

/// Returns whether the function is declared to write to the argument with this key.
pub fn is_declared(definition: &Definition, key: &ArgumentKey<'_>) -> bool {
    names::is_among(definition, key, &definition.options.writes)
}

/// Returns whether an array is a NumPy array that is marked as read-only.
fn is_read_only(array: &Bound<'_, PyAny>) -> bool {
    numpy_array::array(array).is_some_and(|array| !numpy_array::is_writeable(array))
}
