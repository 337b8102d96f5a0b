//! Argument lists with converted arrays.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::{ArgumentKey, ArgumentSlot, ArgumentSlots, leaves, names};
use crate::declared::definition::Definition;
use arraybridge_runtime::convert;
use arraybridge_runtime::interpreter::containers::Container;
use arraybridge_runtime::interpreter::error::Result;

/// Replaces scalars of NumPy by Python's numbers.
///
/// # Errors
///
/// As [`rebuild`].
#[cold]
pub fn with_numbers<'py>(
    definition: &Definition,
    given: (&Bound<'py, PyTuple>, Option<&Bound<'py, PyDict>>),
    scalars: &ArgumentSlots<'py>,
) -> Result<(Bound<'py, PyTuple>, Option<Bound<'py, PyDict>>)> {
    let number = |slot: &ArgumentSlot<'py>| {
        let number = slot.value.call_method0("item")?;
        // Python has no number like those of ml_dtypes.
        match convert::is_scalar(&number) {
            true => number.call_method0("__float__"),
            false => Ok(number),
        }
    };
    let numbers = scalars.iter().map(number).collect::<PyResult<Vec<_>>>()?;
    rebuild(definition, given, scalars, numbers.into_iter().enumerate().collect())
}

/// Replaces arrays by converted ones, given with the indices of their slots. The caller's own containers are not
/// changed.
///
/// # Errors
///
/// Any exception that Python raises; [`Error::Type`](arraybridge_runtime::interpreter::error::Error::Type) for a container that holds
/// itself.
pub(super) fn rebuild<'py>(
    definition: &Definition,
    (given, named): (&Bound<'py, PyTuple>, Option<&Bound<'py, PyDict>>),
    slots: &ArgumentSlots<'py>,
    mut replaced: Vec<(usize, Bound<'py, PyAny>)>,
) -> Result<(Bound<'py, PyTuple>, Option<Bound<'py, PyDict>>)> {
    let mut args: Vec<Bound<'py, PyAny>> = given.iter().collect();
    let kwargs = named.map(|named| named.copy()).transpose()?;
    // Those of one container follow one another, also where the lead is among them.
    if slots.iter().any(|slot| slot.element.is_some()) {
        replaced.sort_by_key(|(index, _)| {
            let slot = &slots[*index];
            let name = match &slot.key {
                ArgumentKey::Positional(position) => *position,
                ArgumentKey::Keyword(name) => name.as_ptr() as usize,
            };
            (slot.order, name, slot.element)
        });
    }
    let mut replaced = replaced.into_iter().peekable();
    while let Some((index, value)) = replaced.next() {
        let slot = &slots[index];
        // To ask whether an array is a container costs more than the rest.
        let argument = slot.element.and_then(|_| slot.key.argument(given, named));
        let value = match (slot.element, argument.as_ref().and_then(Container::of)) {
            (Some(element), Some(container)) => {
                let mut elements = vec![(element, value)];
                while let Some((next, value)) =
                    replaced.next_if(|(next, _)| slots[*next].key.is(&slot.key))
                {
                    elements.extend(slots[next].element.map(|element| (element, value)));
                }
                leaves::replaced(&container, elements)
                    .map_err(|error| names::of_container(definition, &slot.key, error))?
            }
            _ => value,
        };
        match (&slot.key, &kwargs) {
            (ArgumentKey::Positional(position), _) => args[*position] = value,
            (ArgumentKey::Keyword(name), Some(kwargs)) => kwargs.set_item(name, value)?,
            (ArgumentKey::Keyword(_), None) => {}
        }
    }
    Ok((PyTuple::new(given.py(), args)?, kwargs))
}
