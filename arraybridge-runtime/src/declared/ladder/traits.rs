//! The traits of a call, read from its arguments.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyWeakrefReference};

use super::room::{Trait, Traits};
use crate::declared::arguments::{ArgumentKey, ArgumentSlots};
use crate::declared::call::Call;
use crate::framework::shape;
use crate::framework::{detect, loaded};
use crate::interpreter::containers::Container;
use crate::interpreter::error::attempt;

/// A call with more than this is like no other one: to compare it would take too long.
const MOST_TRAITS: usize = 256;

impl Traits {
    /// The traits of a call whose lead is cut along an axis; `None` if it cannot be compared.
    pub fn of<'py>(
        call: &Call<'_, 'py>,
        slots: &ArgumentSlots<'py>,
        axis: usize,
    ) -> Option<Traits> {
        let mut found = Traits(Vec::new());
        for (index, slot) in slots.iter().enumerate() {
            let mut shape = shape::of(&slot.value)?;
            if index == 0 || call.is_sliced(slot) {
                *shape.get_mut(axis)? = 0;
            }
            found.0.push(Trait::Number(shape.len()));
            found.0.extend(shape.into_iter().map(Trait::Number));
            found.add(slot.value.get_type().as_any())?;
            let loaded = loaded::load(call.py, detect::class_of(&slot.value)?.framework).ok()?;
            found.add(&attempt(call.py, loaded.stated_dtype(&slot.value))?)?;
        }
        for (index, value) in call.args.iter().enumerate() {
            found.add_argument(&ArgumentKey::Positional(index), &value, slots)?;
        }
        for (name, value) in call.kwargs.iter().flatten() {
            found.add(&name)?;
            found.add_argument(&ArgumentKey::Keyword(name.cast_into().ok()?), &value, slots)?;
        }
        Some(found)
    }

    /// Adds an argument, except for the arrays in it, which are known.
    fn add_argument<'py>(
        &mut self,
        key: &ArgumentKey<'py>,
        value: &Bound<'py, PyAny>,
        slots: &ArgumentSlots<'py>,
    ) -> Option<()> {
        let is_array = |element| slots.iter().any(|slot| slot.is_at(key, element));
        self.0.push(Trait::Number(usize::from(is_array(None))));
        match is_array(None) {
            true => Some(()),
            false => self.add_except(value, &|element| is_array(Some(element))),
        }
    }

    fn add(&mut self, value: &Bound<'_, PyAny>) -> Option<()> {
        self.add_except(value, &|_| false)
    }

    /// Adds what is not an array, or a container without the elements for which this is true.
    fn add_except(
        &mut self,
        value: &Bound<'_, PyAny>,
        is_left_out: &dyn Fn(usize) -> bool,
    ) -> Option<()> {
        let py = value.py();
        // This also ends lists that contain themselves.
        if self.is_full() {
            return None;
        }
        if let Some(container) = Container::of(value) {
            return self.add_container(&container, &mut 0, is_left_out);
        }
        self.0.push(match PyWeakrefReference::new(value) {
            Ok(weak) => Trait::Object(weak.into_any().unbind()),
            Err(_) => {
                attempt(py, value.hash())?;
                Trait::Value(value.clone().unbind())
            }
        });
        Some(())
    }

    fn is_full(&self) -> bool {
        self.0.len() >= MOST_TRAITS
    }

    /// Adds what a container holds, `next` being the index of the first that is not a container.
    fn add_container(
        &mut self,
        container: &Container<'_, '_>,
        next: &mut usize,
        is_left_out: &dyn Fn(usize) -> bool,
    ) -> Option<()> {
        let value = container.value();
        if self.is_full() {
            return None;
        }
        let items = attempt(value.py(), container.items())?;
        self.add(value.get_type().as_any())?;
        self.0.push(Trait::Number(items.len()));
        for key in value.cast::<PyDict>().iter().flat_map(|dict| dict.keys()) {
            self.add(&key)?;
        }
        for (index, item) in items.iter().enumerate() {
            if detect::class_of(item).is_none()
                && let Some(inner) = Container::of(item)
            {
                self.0.push(Trait::Number(index));
                self.add_container(&inner, next, is_left_out)?;
                continue;
            }
            let at = *next;
            *next += 1;
            if !is_left_out(at) {
                self.0.push(Trait::Number(index));
                self.add(item)?;
            }
        }
        Some(())
    }
}
