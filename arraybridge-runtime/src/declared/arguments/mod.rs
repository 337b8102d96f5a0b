//! The arrays among the arguments of a call: found here, and converted to what the function is
//! declared for by [`fit`].

mod fit;
mod rebuild;
mod versions;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use smallvec::SmallVec;

use super::definition::Definition;
use super::options::Options;
use super::signature::ArrayUsage;
use crate::convert;
use crate::framework::detect::{self, Class, Role};
use crate::framework::loaded;
use crate::framework::spec::Framework;
use crate::interpreter::containers::Container;
use crate::interpreter::error::{Error, Result};

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
    /// Whether the value is a part of what the caller passed, or was made of it.
    is_part: bool,
    /// What the declaration does with it.
    usage: ArrayUsage,
}

/// An array among the arguments, independent of the interpreter's lifetime.
pub struct UnboundSlot {
    /// The name of the keyword argument, or the index of the positional one.
    key: std::result::Result<Py<PyString>, usize>,
    value: Py<PyAny>,
    element: Option<usize>,
    order: usize,
    class: Class,
    is_part: bool,
    usage: ArrayUsage,
}

impl From<ArgumentSlot<'_>> for UnboundSlot {
    fn from(slot: ArgumentSlot<'_>) -> UnboundSlot {
        let ArgumentSlot { key, element, order, value, class, is_part, usage } = slot;
        let key = match key {
            ArgumentKey::Keyword(name) => Ok(name.unbind()),
            ArgumentKey::Positional(index) => Err(index),
        };
        UnboundSlot { key, value: value.unbind(), element, order, class, is_part, usage }
    }
}

impl UnboundSlot {
    /// The array.
    pub fn bind<'py>(&self, py: Python<'py>) -> ArgumentSlot<'py> {
        let &UnboundSlot { element, order, class, is_part, usage, .. } = self;
        let key = match &self.key {
            Ok(name) => ArgumentKey::Keyword(name.bind(py).clone()),
            Err(index) => ArgumentKey::Positional(*index),
        };
        let value = self.value.bind(py).clone();
        ArgumentSlot { key, element, order, value, class, is_part, usage }
    }
}

/// The arrays of a call, in the order of the signature.
pub type ArgumentSlots<'py> = SmallVec<[ArgumentSlot<'py>; 4]>;

/// Finds the arrays that the declaration is concerned with. Of what is only like an array, NumPy makes one.
///
/// # Errors
///
/// As [`convert::seen_as_array`].
pub fn find<'py>(
    slots: &mut ArgumentSlots<'py>,
    definition: &Definition,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> Result<()> {
    let parameters = &definition.parameters;
    let options = &definition.options;
    for (index, value) in args.iter_borrowed().enumerate() {
        let (usage, order) = parameters.positional(index);
        if usage != ArrayUsage::Ignored {
            let key = ArgumentKey::Positional(index);
            find_in(slots, options, key, usage, order, value.to_owned())?;
        }
    }
    let Some(kwargs) = kwargs.filter(|kwargs| !kwargs.is_empty()) else { return Ok(()) };
    for (name, value) in kwargs {
        let Ok(name) = name.cast_into::<PyString>() else { continue };
        let (usage, order) = parameters.keyword(&name.to_string_lossy());
        if usage != ArrayUsage::Ignored {
            find_in(slots, options, ArgumentKey::Keyword(name), usage, order, value)?;
        }
    }
    slots.sort_by_key(|slot| slot.order);
    Ok(())
}

/// The arrays of a value that a generator is sent, as those of the only argument of a call. Where the
/// declaration names the parameters whose arrays are converted, there are none.
///
/// # Errors
///
/// As [`find`].
pub fn find_sent<'py>(
    definition: &Definition,
    value: &Bound<'py, PyAny>,
) -> Result<ArgumentSlots<'py>> {
    let (mut slots, options) = (ArgumentSlots::new(), &definition.options);
    if options.arrays.is_none() {
        let (key, usage) = (ArgumentKey::Positional(0), ArrayUsage::Converted);
        find_in(&mut slots, options, key, usage, 0, value.clone())?;
    }
    Ok(slots)
}

/// Adds the array that an argument is, or the arrays that it contains.
#[inline]
fn find_in<'py>(
    slots: &mut ArgumentSlots<'py>,
    options: &Options,
    key: ArgumentKey<'py>,
    usage: ArrayUsage,
    order: usize,
    value: Bound<'py, PyAny>,
) -> Result<()> {
    if let Some(class) = detect::class_of(&value) {
        let (element, is_part) = (None, false);
        slots.push(ArgumentSlot { key, element, order, value, class, is_part, usage });
        return Ok(());
    }
    let Some(container) = Container::of(&value) else {
        let slot = seen(options, key, None, order, value, usage)?;
        slots.extend(slot);
        return Ok(());
    };
    let before = slots.len();
    // What cannot be read is passed on as it is.
    for (index, value) in container.items().unwrap_or_default().into_iter().enumerate() {
        let (key, element, is_part) = (key.clone(), Some(index), false);
        match detect::class_of(&value) {
            Some(class) => {
                slots.push(ArgumentSlot { key, element, order, value, class, is_part, usage });
            }
            None => slots.extend(seen(options, key, element, order, value, usage)?),
        }
    }
    // The declaration says that this is an array.
    let is_array = container.is_sequence() && usage == ArrayUsage::Converted;
    if is_array && options.arrays.is_some() && slots.len() == before && !value.is_empty()? {
        let value = convert::as_numpy(&value, options.input)?;
        slots.extend(made(key, None, order, value, usage));
    }
    Ok(())
}

/// The array that an object of no framework is like, if it is like one and the function does not open it
/// itself.
#[inline]
fn seen<'py>(
    options: &Options,
    key: ArgumentKey<'py>,
    element: Option<usize>,
    order: usize,
    value: Bound<'py, PyAny>,
    usage: ArrayUsage,
) -> Result<Option<ArgumentSlot<'py>>> {
    if usage.is_opened() || !convert::is_like_array(&value) {
        return Ok(None);
    }
    let array = convert::seen_as_array(&value, options.input).map_err(|mut error| {
        if let Error::Conversion(error) = &mut error {
            let way = "; if the function takes it as it is, list the other parameters in arrays=";
            error.reason.push_str(way);
        }
        error
    })?;
    Ok(array.and_then(|array| made(key, element, order, array, usage)))
}

/// An array that was made of an argument, and takes its place.
fn made<'py>(
    key: ArgumentKey<'py>,
    element: Option<usize>,
    order: usize,
    value: Bound<'py, PyAny>,
    usage: ArrayUsage,
) -> Option<ArgumentSlot<'py>> {
    let class = detect::class_of(&value)?;
    Some(ArgumentSlot { key, element, order, value, class, is_part: true, usage })
}

impl<'py> ArgumentSlot<'py> {
    /// The slot with a part of its array; `None` if the part is not an array.
    pub fn with_part(&self, part: Bound<'py, PyAny>) -> Option<ArgumentSlot<'py>> {
        let class = detect::class_of(&part)?;
        Some(ArgumentSlot { value: part, class, is_part: true, ..self.clone() })
    }

    /// Whether it is this argument, or its element of this index.
    pub fn is_at(&self, key: &ArgumentKey<'_>, element: Option<usize>) -> bool {
        self.key.is(key) && self.element == element
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

    /// Whether it is an array, not something that stands for one or has one inside.
    pub fn is_plain(&self) -> bool {
        matches!(self.class.role, Role::Array)
    }

    /// Whether it is an array with values of its own, and no trace or gradient depends on it.
    pub fn is_concrete(&self) -> bool {
        let (py, framework) = (self.value.py(), self.class.framework);
        let Ok(loaded) = loaded::load(py, framework) else {
            return false;
        };
        self.is_plain()
            && !loaded.is_guarded(&self.value, None)
            && loaded.reason(&self.value).is_none()
    }
}
