//! The arrays among the arguments of a call: found here, and converted to what the function is
//! declared for by [`fit`].

mod fit;
mod rebuild;
mod versions;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use smallvec::SmallVec;

use super::definition::Definition;
use super::signature::ArrayUsage;
use crate::framework::detect::{self, Class, Role};
use crate::framework::endpoints::Endpoints;
use crate::framework::loaded;
use crate::framework::spec::Framework;
use crate::interpreter::containers::Container;

pub use fit::{Destination, FittedArguments, call_placement, fit};
pub use versions::{ArrayVersions, UnboundVersions, has_changed, version};

/// Which argument an array is, or is an element of.
#[derive(Clone)]
pub enum ArgumentKey<'py> {
    /// The positional argument of this index.
    Positional(usize),
    /// The keyword argument of this name.
    Keyword(Bound<'py, PyString>),
}

impl ArgumentKey<'_> {
    /// Whether both are the same argument of one call.
    fn is(&self, other: &ArgumentKey<'_>) -> bool {
        match (self, other) {
            (ArgumentKey::Positional(this), ArgumentKey::Positional(that)) => this == that,
            (ArgumentKey::Keyword(this), ArgumentKey::Keyword(that)) => this.is(that),
            _ => false,
        }
    }
}

/// An array among the arguments.
#[derive(Clone)]
pub struct ArgumentSlot<'py> {
    /// The argument.
    pub key: ArgumentKey<'py>,
    /// The array's index in the argument, if that is a container.
    element: Option<usize>,
    /// The argument's index in the signature.
    order: usize,
    /// The array as the caller passed it, or a part of it.
    pub value: Bound<'py, PyAny>,
    /// What is known about its class.
    pub class: Class,
    /// Whether the value is a part of what the caller passed.
    is_part: bool,
    /// What the declaration does with it.
    usage: ArrayUsage,
}

/// The arrays of a call, in the order of the signature.
pub type ArgumentSlots<'py> = SmallVec<[ArgumentSlot<'py>; 4]>;

/// Finds the arrays that the declaration is concerned with.
pub fn find<'py>(
    definition: &Definition,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> ArgumentSlots<'py> {
    let parameters = &definition.parameters;
    let mut slots = ArgumentSlots::new();
    for (index, value) in args.iter_borrowed().enumerate() {
        let (usage, order) = parameters.positional(index);
        if usage != ArrayUsage::Ignored {
            let key = ArgumentKey::Positional(index);
            find_in(&mut slots, key, usage, order, value.to_owned());
        }
    }
    let Some(kwargs) = kwargs.filter(|kwargs| !kwargs.is_empty()) else { return slots };
    for (name, value) in kwargs {
        let Ok(name) = name.cast_into::<PyString>() else { continue };
        let (usage, order) = parameters.keyword(&name.to_string_lossy());
        if usage != ArrayUsage::Ignored {
            find_in(&mut slots, ArgumentKey::Keyword(name), usage, order, value);
        }
    }
    slots.sort_by_key(|slot| slot.order);
    slots
}

/// Adds the array that an argument is, or the arrays that it contains.
#[inline]
fn find_in<'py>(
    slots: &mut ArgumentSlots<'py>,
    key: ArgumentKey<'py>,
    usage: ArrayUsage,
    order: usize,
    value: Bound<'py, PyAny>,
) {
    if let Some(class) = detect::class_of(&value) {
        let (element, is_part) = (None, false);
        slots.push(ArgumentSlot { key, element, order, value, class, is_part, usage });
        return;
    }
    let Some(container) = Container::of(&value) else { return };
    // What cannot be read is passed on as it is.
    for (index, value) in container.items().unwrap_or_default().into_iter().enumerate() {
        if let Some(class) = detect::class_of(&value) {
            let (key, element, is_part) = (key.clone(), Some(index), false);
            slots.push(ArgumentSlot { key, element, order, value, class, is_part, usage });
        }
    }
}

/// The length of an array along an axis, if the array has the axis and the length is known.
pub fn length_along(array: &Bound<'_, PyAny>, axis: usize) -> Option<usize> {
    let shape = array.getattr(pyo3::intern!(array.py(), "shape")).ok()?;
    shape.get_item(axis).ok()?.extract().ok()
}

impl<'py> ArgumentSlot<'py> {
    /// The slot with a part of its array; `None` if the part is not an array.
    pub fn with_part(&self, part: Bound<'py, PyAny>) -> Option<ArgumentSlot<'py>> {
        let class = detect::class_of(&part)?;
        Some(ArgumentSlot { value: part, class, is_part: true, ..self.clone() })
    }

    /// Whether the function opens the array itself, and writes to it.
    pub fn is_written(&self) -> bool {
        self.usage == ArrayUsage::Written
    }

    /// Whether the function opens the array itself.
    pub fn is_opened(&self) -> bool {
        self.usage.is_opened()
    }

    /// Whether it belongs to a framework, as an array of any kind.
    pub fn is_of(&self, framework: &Framework) -> bool {
        self.class.framework.memory_type == framework.memory_type
    }

    fn is_plain(&self) -> bool {
        matches!(self.class.role, Role::Array)
    }

    /// Whether it is an array with values of its own, and no trace or gradient depends on it.
    pub fn is_concrete(&self) -> bool {
        let (py, framework) = (self.value.py(), self.class.framework);
        let Ok(loaded) = loaded::load(py, framework, Endpoints::of(framework)) else {
            return false;
        };
        self.is_plain()
            && !loaded.is_guarded(py, &self.value, None)
            && loaded.reason(py, &self.value).is_none()
    }
}
