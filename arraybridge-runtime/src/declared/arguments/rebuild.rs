//! Argument lists with converted arrays.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::{ArgumentKey, ArgumentSlots, FittedArguments, leaves};
use crate::interpreter::containers::Container;
use crate::interpreter::error::Result;

/// Replaces arrays by converted ones, given with the indices of their slots. The caller's own containers are not
/// changed.
///
/// # Errors
///
/// Any exception that Python raises.
pub(super) fn rebuild<'py>(
    fitted: &mut FittedArguments<'py>,
    slots: &ArgumentSlots<'py>,
    mut replaced: Vec<(usize, Bound<'py, PyAny>)>,
) -> Result<()> {
    let py = fitted.args.py();
    let mut args: Vec<Bound<'py, PyAny>> = fitted.args.iter().collect();
    let kwargs = fitted.kwargs.as_ref().map(|kwargs| kwargs.copy()).transpose()?;
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
        let argument = match (slot.element, &slot.key) {
            // To ask whether an array is a container costs more than the rest.
            (None, _) => None,
            (_, ArgumentKey::Positional(position)) => Some(args[*position].clone()),
            (_, ArgumentKey::Keyword(name)) => {
                kwargs.as_ref().map(|kwargs| kwargs.get_item(name)).transpose()?.flatten()
            }
        };
        let container = argument.as_ref().and_then(Container::of);
        let value = match (slot.element, container) {
            (Some(element), Some(container)) => {
                let mut elements = vec![(element, value)];
                while let Some((next, value)) =
                    replaced.next_if(|(next, _)| slots[*next].key.is(&slot.key))
                {
                    elements.extend(slots[next].element.map(|element| (element, value)));
                }
                leaves::replaced(&container, elements)?
            }
            _ => value,
        };
        match (&slot.key, &kwargs) {
            (ArgumentKey::Positional(position), _) => args[*position] = value,
            (ArgumentKey::Keyword(name), Some(kwargs)) => kwargs.set_item(name, value)?,
            (ArgumentKey::Keyword(_), None) => {}
        }
    }
    fitted.args = PyTuple::new(py, args)?;
    fitted.kwargs = kwargs;
    Ok(())
}
