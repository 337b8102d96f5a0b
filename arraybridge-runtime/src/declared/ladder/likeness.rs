//! The likeness of a function's calls: calls that are alike need as much memory for leads of the
//! same length.

use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyWeakrefReference};

use crate::declared::arguments::{ArgumentKey, ArgumentSlots};
use crate::declared::call::Call;
use crate::framework::shape;
use crate::framework::{detect, loaded};
use crate::interpreter::containers::Container;
use crate::interpreter::error::attempt;

/// A call with more than this is like no other one: to compare it would take too long.
const MOST_TRAITS: usize = 256;

/// The arguments of a call: the frameworks, dtypes and shapes of the arrays, but not how long the lead is and
/// what is cut with it, and everything else.
pub struct Likeness(Vec<Trait>);

enum Trait {
    /// An index, or a number of axes, elements or arguments.
    Number(usize),
    /// A weak reference. An object has the same one as long as it is alive, and a new object at its address has another.
    Object(Py<PyAny>),
    /// An object that has no weak references but a hash, so that it does not change: a number, a
    /// string or a dtype.
    Value(Py<PyAny>),
}

impl Likeness {
    /// The likeness of a call whose lead is cut along an axis; `None` if it cannot be compared.
    pub fn of<'py>(
        call: &Call<'_, 'py>,
        slots: &ArgumentSlots<'py>,
        axis: usize,
    ) -> Option<Likeness> {
        let mut found = Likeness(Vec::new());
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

    /// Returns whether two calls are alike.
    pub fn is_like(&self, py: Python<'_>, other: &Likeness) -> bool {
        self.0.len() == other.0.len()
            && self.0.iter().zip(&other.0).all(|(one, other)| one.is_like(py, other))
    }

    /// Visits the objects, for the garbage collector.
    ///
    /// # Errors
    ///
    /// Any error that the visitor returns.
    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.0.iter().try_for_each(|found| match found {
            Trait::Number(_) => Ok(()),
            Trait::Object(object) | Trait::Value(object) => visit.call(object),
        })
    }
}

impl Trait {
    fn is_like(&self, py: Python<'_>, other: &Trait) -> bool {
        match (self, other) {
            (Trait::Number(one), Trait::Number(other)) => one == other,
            (Trait::Object(one), Trait::Object(other)) => one.is(other),
            (Trait::Value(one), Trait::Value(other)) => {
                let (one, other) = (one.bind(py), other.bind(py));
                // 1 and True are equal.
                let has_type = one.get_type().is(other.get_type());
                one.is(other) || (has_type && attempt(py, one.eq(other)).unwrap_or(false))
            }
            _ => false,
        }
    }
}
