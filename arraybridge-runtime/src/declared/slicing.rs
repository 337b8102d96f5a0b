//! Calls for parts of the first array, which the declaration's `sliced` arrays are cut with.

use pyo3::prelude::*;
use pyo3::types::PyList;

use super::Declared;
use super::arguments::{ArgumentSlot, ArgumentSlots};
use super::call::Call;
use super::result::{self, ResultScope};
use crate::framework::shape;
use crate::interpreter::error::{Error, Result};
use crate::slices::{self, Merge};

impl<'py> Call<'_, 'py> {
    /// Calls the function for each slice of the first array along its first axis, and finishes the stack
    /// of the results; None if the function only writes to its arguments. A 2-D array is a slice itself.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] when there is no array, or when the arrays that are sliced together differ in
    /// length; as [`slices::process`] and [`Call::finish`].
    pub fn slice_by_slice(&self, declared: &Bound<'py, Declared>) -> PyResult<Bound<'py, PyAny>> {
        let Some(lead) = self.slots.first() else {
            let text = "slice_by_slice needs an array among the arguments".to_owned();
            return Err(Error::Value(text).into());
        };
        if slices::is_slice(&lead.value) {
            let result = self.called(declared, &self.slots, ResultScope::Call)?;
            return self.finish(result, ResultScope::Call);
        }
        self.check_sliced(&self.slots, 0)?;
        let merge = Merge {
            name: &self.definition.name,
            target: None,
            policy: Some(result::joined_policy(self, ResultScope::Stack)),
            stacks_images: true,
        };
        let stack = slices::process(&lead.value, &merge, &mut |index, slice| {
            let part = |array: &Bound<'py, PyAny>| Ok(array.get_item(index)?);
            let slots = self.with_parts(&self.slots, slice, &part)?;
            let result = self.called(declared, &slots, ResultScope::Slice)?;
            result::finish(self, result, ResultScope::Slice)
        })?;
        if is_nothing(&stack) {
            return Ok(self.py.None().into_bound(self.py));
        }
        self.finish(stack, ResultScope::Stack)
    }

    /// The arrays of the call with a part of the first array, and of those that are sliced with it.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] when a part is not an array; what `part` returns.
    pub fn with_parts(
        &self,
        whole: &ArgumentSlots<'py>,
        lead: Bound<'py, PyAny>,
        part: &dyn Fn(&Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>>,
    ) -> Result<ArgumentSlots<'py>> {
        let not_an_array = || Error::Value("a slice of the first array is not an array".to_owned());
        let mut slots = ArgumentSlots::new();
        for (index, slot) in whole.iter().enumerate() {
            slots.push(match index {
                0 => slot.with_part(lead.clone()).ok_or_else(not_an_array)?,
                _ if self.is_sliced(slot) => {
                    slot.with_part(part(&slot.value)?).ok_or_else(not_an_array)?
                }
                _ => slot.clone(),
            });
        }
        Ok(slots)
    }

    /// Checks that arrays that are sliced together have the same length.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] with both lengths.
    pub fn check_sliced(&self, slots: &ArgumentSlots<'py>, axis: usize) -> Result<()> {
        let mut lengths = slots
            .iter()
            .enumerate()
            .filter(|(index, slot)| *index == 0 || self.is_sliced(slot))
            .filter_map(|(_, slot)| shape::length_along(&slot.value, axis));
        let Some(lead) = lengths.next() else { return Ok(()) };
        match lengths.find(|length| *length != lead) {
            None => Ok(()),
            Some(other) => Err(Error::Value(format!(
                "arrays that are sliced together have the lengths {lead} and {other} along axis {axis}"
            ))),
        }
    }

    /// Whether an array is cut together with the first one.
    pub fn is_sliced(&self, slot: &ArgumentSlot<'py>) -> bool {
        slot.is_passed_for(self.definition, &self.definition.options.sliced)
    }
}

/// Whether the results of all slices are None.
fn is_nothing(results: &Bound<'_, PyAny>) -> bool {
    results.cast::<PyList>().is_ok_and(|list| list.iter().all(|result| result.is_none()))
}
