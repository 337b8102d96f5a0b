//! Calls for parts of the first array, which the declaration's `sliced` arrays are cut with.

use arraybridge_runtime::intern;
use pyo3::prelude::*;
use pyo3::types::{PyEllipsis, PyInt, PyTuple};
use smallvec::SmallVec;

use super::arguments::{self, ArgumentSlot, ArgumentSlots};
use super::call::Call;
use super::options::AxisName;
use super::result::{self, ResultScope};
use crate::slices::lazy;
use crate::slices::{self, Layout, Merge, Stack};
use arraybridge_runtime::convert::{self, Places};
use arraybridge_runtime::framework::{detect, shape};
use arraybridge_runtime::interpreter::error::{Error, Result, add_note};
use arraybridge_runtime::interpreter::tuples::{plain_tuple, rebuilt};
use arraybridge_tensor::memory::view::Dims;

impl<'py> Call<'_, 'py> {
    /// Calls the function for each slice of the first array, and finishes the stack of the results; None if the
    /// function only writes to its arguments. An array with the axes of a slice is a slice itself.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] when there is no array, or when the arrays that are sliced together differ in
    /// length; as [`slices::process`] and [`Call::finish`].
    pub fn slice_by_slice(&mut self) -> PyResult<Bound<'py, PyAny>> {
        let layout = self.layout()?;
        if layout.leading.is_empty() {
            let result = self.called(&self.slots, ResultScope::Call)?;
            return self.finish(result, ResultScope::Call, Ok);
        }
        self.check_layout(&layout)?;
        self.expect_apart(&self.slots)?;
        let order = layout.order();
        for index in 0..self.slots.len() {
            let slot = &self.slots[index];
            if index > 0 && !self.is_sliced(slot) {
                continue;
            }
            let is_alike = shape::ndim(&slot.value) == Some(layout.axes);
            self.slots[index] = match is_alike {
                true => slot.undivided(layout.leading.iter().copied())?.with_order(&order)?,
                false => slot.undivided(0..layout.leading.len())?,
            };
        }
        self.leading = layout.leading.len();
        self.stacked(&layout)
    }

    /// Calls the function for each slice of the first array, whose first axes count slices now.
    fn stacked(&self, layout: &Layout) -> PyResult<Bound<'py, PyAny>> {
        let (lead, sink) = (&self.slots[0], self.sink.as_ref());
        let merge = Merge {
            name: &self.definition.name,
            target: None,
            policy: Some(result::joined_policy(self, ResultScope::Stack)),
            stacks_images: true,
        };
        // The axes of the stand-in were put in order.
        let shape = shape::of(&lead.value).unwrap_or_default();
        let stack = match lead.lazy() {
            Some(lazy) => Stack::lazy(lazy, layout, &shape),
            None => Stack::leading(&lead.value, layout)?,
        };
        let mut call = |position: &[usize], slice: Bound<'py, PyAny>| {
            let one = || -> PyResult<Bound<'py, PyAny>> {
                let part = |slot: &ArgumentSlot<'py>| self.slice_of(slot, layout, position);
                let slots = self.with_parts(&self.slots, slice, &part)?;
                let result = self.called(&slots, ResultScope::Slice)?;
                let result = result::finish(self, result, ResultScope::Slice)?;
                match sink {
                    Some(sink) => Ok(sink.write_slice(&stack, position, result)?),
                    None => Ok(result),
                }
            };
            one().map_err(|error| {
                let place = layout.place(position);
                let argument = arguments::of_argument(self.definition, &lead.key);
                let note = format!("arraybridge: {argument}: in the slice {place}");
                let _ = add_note(self.py, &error, &note);
                Error::Python(error)
            })
        };
        let stack = slices::process(&stack, &merge, &mut call)?;
        if sink.is_none() && slices::is_nothing(&stack) {
            return Ok(self.py.None().into_bound(self.py));
        }
        let stack = match sink {
            Some(sink) => sink.merged(stack)?,
            None => stack,
        };
        self.finish(stack, ResultScope::Stack, |stack| arranged(stack, layout))
    }

    /// The axes of the first array that count slices: all before the last two, or those that the declaration does not
    /// name.
    fn layout(&self) -> Result<Layout> {
        let Some(lead) = self.slots.first() else {
            let text = "slice_by_slice needs an array among the arguments".to_owned();
            return Err(Error::Value(text));
        };
        let axes = shape::ndim(&lead.value).unwrap_or(0);
        let Some(names) = &self.definition.options.slice_axes else {
            let count =
                if slices::is_slice(&lead.value) { 0 } else { slices::leading_axes(&lead.value)? };
            return Ok(Layout::first(count, axes));
        };
        let wrong = |text: String| {
            let argument = arguments::of_argument(self.definition, &lead.key);
            Error::Value(format!("{argument}: {text}"))
        };
        let mut inner: SmallVec<[usize; 4]> = SmallVec::new();
        for name in names {
            let found = match name {
                AxisName::Index(index) if *index < 0 => axes.checked_add_signed(*index),
                AxisName::Index(index) => {
                    usize::try_from(*index).ok().filter(|index| *index < axes)
                }
                AxisName::Name(name) => self.dims(lead)?.iter().position(|dim| dim == name),
            };
            let found = found.ok_or_else(|| {
                let dims = self.dims(lead).unwrap_or_default();
                let shape = shape::text(&lead.value);
                let known = if dims.is_empty() { "no names".into() } else { dims.join(", ") };
                wrong(format!("slice_axes has {name}, and the array of the shape {shape} has no such axis; its axes have {known}"))
            })?;
            if inner.contains(&found) {
                return Err(wrong(format!("slice_axes names the axis {found} twice")));
            }
            inner.push(found);
        }
        Ok(Layout { axes, leading: (0..axes).filter(|axis| !inner.contains(axis)).collect() })
    }

    /// The names of the axes of an array, as the caller's object has them.
    fn dims(&self, slot: &ArgumentSlot<'py>) -> Result<Vec<String>> {
        let passed = slot.key.argument(&self.args, self.kwargs.as_ref());
        let Some(passed) = passed else { return Ok(Vec::new()) };
        for attribute in [intern!(self.py, "dims"), intern!(self.py, "names")] {
            if let Some(names) = passed.getattr_opt(attribute)?
                && let Ok(names) = names.extract()
            {
                return Ok(names);
            }
        }
        Ok(Vec::new())
    }

    /// The part of an array that is sliced with the first one. One value for a slice is an array without axes.
    fn slice_of(
        &self,
        slot: &ArgumentSlot<'py>,
        layout: &Layout,
        position: &[usize],
    ) -> Result<Bound<'py, PyAny>> {
        let axes = shape::ndim(&slot.value).unwrap_or(0);
        if let Some(lazy) = slot.lazy() {
            let index = PyTuple::new(self.py, layout.index(self.py, position, axes))?;
            return lazy::read(lazy, index.as_any());
        }
        if let [index] = position
            && axes > 1
        {
            return Ok(slot.value.get_item(*index)?);
        }
        let mut index = vec![];
        for at in position {
            index.push(PyInt::new(self.py, *at).into_any());
        }
        index.push(PyEllipsis::get(self.py).to_owned().into_any());
        let part = slot.value.get_item(PyTuple::new(self.py, index)?)?;
        // pyclesperanto makes a number of a single element.
        Ok(convert::scalar_as_array(&part).unwrap_or(part))
    }

    /// Checks that arrays that are sliced together have the same leading axes.
    fn check_layout(&self, layout: &Layout) -> Result<()> {
        let lead = shape::of(&self.slots[0].value).unwrap_or_default();
        let wanted: Dims<usize> =
            layout.leading.iter().filter_map(|axis| lead.get(*axis).copied()).collect();
        for slot in self.slots.iter().skip(1).filter(|slot| self.is_sliced(slot)) {
            let Some(shape) = shape::of(&slot.value) else { continue };
            let found: Dims<usize> = match shape.len() == layout.axes {
                true => layout.leading.iter().map(|axis| shape[*axis]).collect(),
                false => shape.iter().take(wanted.len()).copied().collect(),
            };
            if found != wanted {
                let argument = arguments::of_argument(self.definition, &slot.key);
                return Err(Error::Value(format!(
                    "{argument}: arrays that are sliced together have the lengths {wanted:?} and {found:?} along \
                     the axes that count slices"
                )));
            }
        }
        Ok(())
    }

    /// Checks that the function writes to no memory of another slice or tile, which it has read or will read: a call for
    /// one of them sees the memory of that alone.
    ///
    /// # Errors
    ///
    /// [`Error::Aliased`], [`Error::Value`] for an array that overlaps itself, and as
    /// [`check_parts`](arguments::check_parts).
    pub fn expect_apart(&self, slots: &ArgumentSlots<'py>) -> Result<()> {
        for (index, slot) in slots.iter().enumerate() {
            if index == 0 || self.is_sliced(slot) {
                arguments::check_parts(self.definition, slot)?;
            }
        }
        let argument =
            |slot: &ArgumentSlot<'py>| arguments::of_argument(self.definition, &slot.key);
        let mut is_any_written = false;
        for one in slots.iter().filter(|slot| slot.is_written()) {
            is_any_written = true;
            let Some(places) = Places::of(&one.value)? else { continue };
            if places.overlap_themselves() {
                return Err(Error::Value(format!(
                    "{}: elements share memory with each other, so the array cannot be written to",
                    argument(one)
                )));
            }
        }
        if is_any_written
            && let Some([one, other]) =
                arguments::overlapping(slots.iter(), ArgumentSlot::is_written)?
        {
            return Err(Error::Aliased(format!(
                "{} is written to, and its memory overlaps that of {}; pass a copy of one of them",
                argument(one),
                argument(other)
            )));
        }
        Ok(())
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
        part: &dyn Fn(&ArgumentSlot<'py>) -> Result<Bound<'py, PyAny>>,
    ) -> Result<ArgumentSlots<'py>> {
        let not_an_array = || Error::Value("a slice of the first array is not an array".to_owned());
        let mut slots = ArgumentSlots::new();
        for (index, slot) in whole.iter().enumerate() {
            slots.push(match index {
                0 => slot.with_part(lead.clone()).ok_or_else(not_an_array)?,
                _ if self.is_sliced(slot) => {
                    slot.with_part(part(slot)?).ok_or_else(not_an_array)?
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

    /// Returns whether an array is cut together with the first one.
    pub fn is_sliced(&self, slot: &ArgumentSlot<'py>) -> bool {
        slot.is_passed_for(self.definition, &self.definition.options.sliced)
    }
}

/// The stacks of a result with the leading axes where the first array has them.
fn arranged<'py>(result: Bound<'py, PyAny>, layout: &Layout) -> Result<Bound<'py, PyAny>> {
    if layout.is_in_order() {
        return Ok(result);
    }
    if detect::class_of(&result).is_some() {
        let axes = shape::ndim(&result).unwrap_or(0);
        return match layout.result_order(axes) {
            Some(order) => slices::permuted(&result, &order),
            None => Ok(result),
        };
    }
    let Some(tuple) = plain_tuple(&result) else { return Ok(result) };
    let elements = tuple.iter().map(|element| match detect::class_of(&element) {
        Some(_) => arranged(element, layout),
        None => Ok(element),
    });
    Ok(rebuilt(&result, elements.collect::<Result<_>>()?)?)
}
