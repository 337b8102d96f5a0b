//! The arrays among the arguments of a call: found here, and converted to what the function is
//! declared for by [`fit`].

mod fit;
mod found;
mod lead;
mod leaves;
mod names;
mod rebuild;
mod writes;

use std::borrow::Cow;

use arraybridge_runtime::intern;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyEllipsis, PyString, PyTuple};
use smallvec::SmallVec;

use super::definition::Definition;
use super::signature::ArrayUsage;
use crate::slices::{self, lazy};
use arraybridge_runtime::convert;
use arraybridge_runtime::framework::detect::{self, Class, Role};
use arraybridge_runtime::framework::generated::MemoryType;
use arraybridge_runtime::framework::loaded;
use arraybridge_runtime::framework::spec::Framework;
use arraybridge_runtime::interpreter::containers::Container;
use arraybridge_runtime::interpreter::error::{Error, Failure, Result, attempt};

use found::is_parted;

pub use fit::{Destination, FittedArguments, call_placement, fit, host_of_lead};
pub use found::{FoundObjects, holds_wrapper, wrappers};
pub use lead::choice;
pub use names::{of_argument, of_parameter};
pub use rebuild::with_numbers;
pub use writes::{UNCOUNTED, WRITTEN, Writes, check_parts, overlapping};

/// The argument that an array is, or is an element of.
#[derive(Clone)]
pub enum ArgumentKey<'py> {
    /// The positional argument of this index.
    Positional(usize),
    /// The keyword argument of this name.
    Keyword(Bound<'py, PyString>),
}

impl<'py> ArgumentKey<'py> {
    /// The argument, among those of a call.
    pub fn argument(
        &self,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> Option<Bound<'py, PyAny>> {
        match self {
            ArgumentKey::Positional(index) => args.get_item(*index).ok(),
            ArgumentKey::Keyword(name) => kwargs?.get_item(name).ok()?,
        }
    }

    /// Returns whether both are the same argument of one call.
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
    /// The array's index among all that the argument holds, at any depth, if that is a container.
    pub element: Option<usize>,
    /// The argument's index in the signature.
    order: usize,
    /// The array as the caller passed it, or a part of it.
    pub value: Bound<'py, PyAny>,
    /// The known facts about its class.
    pub class: Class,
    /// True if the value is a part of what the caller passed, or was made of it.
    is_part: bool,
    /// The use that the declaration makes of it.
    usage: ArrayUsage,
    /// The object that parts are read from. The value only has the shape and the dtype then.
    lazy: Option<Bound<'py, PyAny>>,
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
        let ArgumentSlot { key, element, order, value, class, is_part, usage, lazy: _ } = slot;
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
        ArgumentSlot { key, element, order, value, class, is_part, usage, lazy: None }
    }

    /// Visits the array, for the garbage collector.
    pub fn visit(&self, visit: &PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        visit.call(&self.value)
    }
}

/// The arrays of a call: first the lead, then the others in the order of the signature.
pub type ArgumentSlots<'py> = SmallVec<[ArgumentSlot<'py>; 4]>;

/// The arrays of a value that a generator is sent, as those of the only argument of a call. Where the
/// declaration names the parameters whose arrays are converted, there are none.
pub fn find_sent<'py>(
    definition: &Definition,
    value: &Bound<'py, PyAny>,
) -> Result<ArgumentSlots<'py>> {
    let mut slots = ArgumentSlots::new();
    if definition.options.arrays.is_none() {
        let (key, usage) = (ArgumentKey::Positional(0), ArrayUsage::Converted);
        let found = &mut FoundObjects::default();
        let mut finder = Finder { slots: &mut slots, found, definition, is_cut: false };
        finder.find_in(DeclaredArgument { key, usage, order: 0 }, value.clone())?;
    }
    Ok(slots)
}

/// Returns whether a value is a scalar of NumPy's that a function of another framework gets as a number.
#[inline]
pub fn is_number(definition: &Definition, value: &Bound<'_, PyAny>) -> bool {
    definition.options.input.memory_type != MemoryType::Numpy && convert::is_scalar(value)
}

/// An argument that the declaration is concerned with.
#[derive(Clone)]
struct DeclaredArgument<'py> {
    key: ArgumentKey<'py>,
    usage: ArrayUsage,
    order: usize,
}

impl<'py> DeclaredArgument<'py> {
    /// The slot of an array that the caller passed as the argument or in it.
    #[inline]
    fn slot(
        self,
        element: Option<usize>,
        value: Bound<'py, PyAny>,
        class: Class,
    ) -> ArgumentSlot<'py> {
        let DeclaredArgument { key, usage, order } = self;
        ArgumentSlot { key, element, order, value, class, is_part: false, usage, lazy: None }
    }

    /// The slot of an array that was made of what the caller passed; `None` for what is not an array.
    fn made(self, element: Option<usize>, value: Bound<'py, PyAny>) -> Option<ArgumentSlot<'py>> {
        let class = detect::class_of(&value)?;
        Some(ArgumentSlot { is_part: true, ..self.slot(element, value, class) })
    }
}

/// Finds the arrays among the arguments of one call.
pub struct Finder<'a, 'py> {
    /// The arrays.
    pub slots: &'a mut ArgumentSlots<'py>,
    /// The objects that are no arrays of a framework and are like some.
    pub found: &'a mut FoundObjects<'py>,
    /// The function and its declaration.
    pub definition: &'a Definition,
    /// True if the call is made part by part.
    pub is_cut: bool,
}

impl<'py> Finder<'_, 'py> {
    /// Finds the arrays that the declaration is concerned with. Of what is only like an array, NumPy makes one. If the
    /// call is made part by part, what can be read part by part is not read yet.
    ///
    /// # Errors
    ///
    /// The errors of [`convert::seen_as_array`]; [`Error::Type`] for containers that are nested too
    /// deep.
    pub fn find(
        mut self,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> Result<()> {
        let parameters = &self.definition.parameters;
        for (index, value) in args.iter_borrowed().enumerate() {
            let (usage, order) = parameters.positional(index);
            if usage != ArrayUsage::Ignored {
                let key = ArgumentKey::Positional(index);
                self.find_in(DeclaredArgument { key, usage, order }, value.to_owned())?;
            }
        }
        if let Some(kwargs) = kwargs.filter(|kwargs| !kwargs.is_empty()) {
            for (name, value) in kwargs {
                let Ok(name) = name.cast_into::<PyString>() else { continue };
                let (usage, order) = parameters.keyword(&name.to_string_lossy());
                if usage != ArrayUsage::Ignored {
                    let key = ArgumentKey::Keyword(name);
                    self.find_in(DeclaredArgument { key, usage, order }, value)?;
                }
            }
            self.slots.sort_by_key(|slot| slot.order);
        }
        if self.slots.len() > 1
            && let Some(index @ 1..) = lead::index(self.slots, self.definition)
        {
            let lead = self.slots.remove(index);
            self.slots.insert(0, lead);
        }
        Ok(())
    }

    /// Adds the array that an argument is, or the arrays that it contains.
    #[inline]
    fn find_in(&mut self, argument: DeclaredArgument<'py>, value: Bound<'py, PyAny>) -> Result<()> {
        if let Some(class) = detect::class_of(&value) {
            self.slots.push(argument.slot(None, value, class));
            return Ok(());
        }
        if self.is_cut && self.add_lazy(&argument, &value)? {
            return Ok(());
        }
        match Container::of(&value) {
            None => self.add_seen(&argument, None, value),
            Some(container) => self.find_within(&argument, &container),
        }
    }

    /// Adds the arrays that a container holds.
    fn find_within(
        &mut self,
        argument: &DeclaredArgument<'py>,
        container: &Container<'_, 'py>,
    ) -> Result<()> {
        let (before, options) = (self.slots.len(), &self.definition.options);
        let walked = leaves::walk(container, &mut |element, value| {
            let Some(class) = detect::class_of(&value) else {
                return self.add_seen(argument, Some(element), value);
            };
            self.slots.push(argument.clone().slot(Some(element), value, class));
            Ok(())
        });
        walked.map_err(|error| names::of_container(self.definition, &argument.key, error))?;
        // The declaration says that this is an array.
        let is_array = container.is_sequence() && argument.usage == ArrayUsage::Converted;
        let is_sliced = names::is_among(self.definition, &argument.key, &options.sliced);
        let value = container.value();
        if is_array
            && (options.arrays.is_some() || is_sliced)
            && self.slots.len() == before
            && !value.is_empty()?
        {
            let array = convert::as_numpy(value, options.input)
                .map_err(|error| self.named(argument, error))?;
            self.slots.extend(argument.clone().made(None, array));
        }
        Ok(())
    }

    /// Adds the array that an object of no framework is like, if it is like one. If the function opens it itself, it
    /// only gets what is inside an object that its result is put into.
    #[inline]
    fn add_seen(
        &mut self,
        argument: &DeclaredArgument<'py>,
        element: Option<usize>,
        value: Bound<'py, PyAny>,
    ) -> Result<()> {
        let is_added = match argument.usage {
            ArrayUsage::Written => false,
            ArrayUsage::Opened => self.definition.options.rewraps() && convert::is_wrapper(&value),
            _ => convert::is_like_array(&value),
        };
        if is_added {
            return self.add_array_like(argument, element, value);
        }
        if argument.usage == ArrayUsage::Converted
            && is_number(self.definition, &value)
            && let Some(array) = convert::scalar_as_array(&value)
        {
            self.found.scalars.extend(argument.clone().made(element, array));
        }
        Ok(())
    }

    /// Adds an object of no framework that can be read part by part; false if it is none.
    fn add_lazy(
        &mut self,
        argument: &DeclaredArgument<'py>,
        value: &Bound<'py, PyAny>,
    ) -> Result<bool> {
        let is_read = matches!(argument.usage, ArrayUsage::Converted | ArrayUsage::Opened)
            && self.copy_of(argument) != Some(false)
            && value.hasattr(intern!(value.py(), "shape"))?;
        let Some(stand_in) = is_read.then(|| lazy::stand_in(value)).transpose()?.flatten() else {
            return Ok(false);
        };
        if convert::is_wrapper(value) {
            self.found.see(value.clone(), stand_in.clone());
            self.found.wrapped.push((argument.key.clone(), value.clone()));
        }
        let slot = argument.clone().made(None, stand_in);
        self.slots.extend(slot.map(|slot| ArgumentSlot { lazy: Some(value.clone()), ..slot }));
        Ok(true)
    }

    #[cold]
    fn add_array_like(
        &mut self,
        argument: &DeclaredArgument<'py>,
        element: Option<usize>,
        value: Bound<'py, PyAny>,
    ) -> Result<()> {
        let options = &self.definition.options;
        if convert::is_wrapper(&value) {
            self.found.wrapped.push((argument.key.clone(), value.clone()));
        }
        // What has the first array in it, and others of its kind, are taken apart together.
        let is_first = self.slots.is_empty() || self.found.parted.is_some();
        if is_first && element.is_none() && options.rewraps() && is_parted(&value)? {
            self.found.parted.get_or_insert(value);
            return Ok(());
        }
        let known = self.found.array_of(&value);
        let (copy, is_cast) = (self.copy_of(argument), options.input_dtype.is_some());
        let array = match known {
            Some(array) => array,
            None => match convert::seen_as_array(&value, options.input, copy, is_cast) {
                Ok(Some(array)) => {
                    self.found.see(value, array.clone());
                    array
                }
                Ok(None) => return Ok(()),
                // What a buffer has in it need not be numbers.
                Err(Error::Conversion(error))
                    if error.failure == Failure::Array && convert::is_buffer(&value) =>
                {
                    return Ok(());
                }
                Err(mut error) => {
                    if let Error::Conversion(error) = &mut error
                        && error.failure != Failure::Copy
                    {
                        let way = "; if the function takes it as it is, list the other parameters in arrays=";
                        error.reason.push_str(way);
                    }
                    return Err(self.named(argument, error));
                }
            },
        };
        self.slots.extend(argument.clone().made(element, array));
        Ok(())
    }

    /// The value of `copy` for the array of an object. If the function writes to the array, it may
    /// not be a copy.
    fn copy_of(&self, argument: &DeclaredArgument<'py>) -> Option<bool> {
        match writes::is_declared(self.definition, &argument.key) {
            true => Some(false),
            false => self.definition.options.copy,
        }
    }

    fn named(&self, argument: &DeclaredArgument<'py>, error: Error) -> Error {
        names::in_argument(self.definition, &argument.key, error)
    }
}

impl<'py> ArgumentSlot<'py> {
    /// The slot with a part of its array; `None` if the part is not an array.
    pub fn with_part(&self, part: Bound<'py, PyAny>) -> Option<ArgumentSlot<'py>> {
        let class = detect::class_of(&part)?;
        Some(ArgumentSlot { value: part, class, is_part: true, lazy: None, ..self.clone() })
    }

    /// The slot with the axes of its array in another order. What is read later keeps its own.
    pub fn with_order(&self, order: &[usize]) -> Result<ArgumentSlot<'py>> {
        Ok(self.with(slices::permuted(&self.value, order)?))
    }

    /// The slot with an array that can be cut along some axes.
    pub fn undivided(&self, axes: impl IntoIterator<Item = usize>) -> Result<ArgumentSlot<'py>> {
        Ok(self.with(slices::undivided(&self.value, axes)?))
    }

    /// The slot with another array of the same class.
    fn with(&self, value: Bound<'py, PyAny>) -> ArgumentSlot<'py> {
        let is_part = self.is_part || !value.is(&self.value);
        ArgumentSlot { value, is_part, ..self.clone() }
    }

    /// The object that parts are read from, if the array was not read yet.
    pub fn lazy(&self) -> Option<&Bound<'py, PyAny>> {
        self.lazy.as_ref()
    }

    /// The slot with another object that parts are read from.
    pub fn read_by(&self, lazy: Bound<'py, PyAny>) -> ArgumentSlot<'py> {
        ArgumentSlot { lazy: Some(lazy), ..self.clone() }
    }

    /// The slot with its array in memory.
    pub fn loaded(&self) -> Result<ArgumentSlot<'py>> {
        let Some(lazy) = &self.lazy else { return Ok(self.clone()) };
        let whole = lazy::read(lazy, PyEllipsis::get(lazy.py()).as_any())?;
        self.with_part(whole)
            .ok_or_else(|| Error::Value("what was read is not an array".to_owned()))
    }

    /// The index or the name of the argument, and the array's index in it.
    pub fn place(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Option<usize>)> {
        let key = match &self.key {
            ArgumentKey::Positional(index) => index.into_pyobject(py)?.into_any(),
            ArgumentKey::Keyword(name) => name.clone().into_any(),
        };
        Ok((key, self.element))
    }

    /// Returns whether it is, or is in, the argument for one of some parameters.
    pub fn is_passed_for(&self, definition: &Definition, parameters: &[String]) -> bool {
        names::is_among(definition, &self.key, parameters)
    }

    /// Returns whether the function opens the array itself, and writes to it.
    pub fn is_written(&self) -> bool {
        self.usage == ArrayUsage::Written
    }

    /// Returns whether the function opens the array itself.
    pub fn is_opened(&self) -> bool {
        self.usage.is_opened()
    }

    /// Returns whether it was made of what the caller passed.
    pub fn is_made(&self) -> bool {
        self.is_part
    }

    /// Returns whether it belongs to a framework, as an array of any kind.
    pub fn is_of(&self, framework: &Framework) -> bool {
        self.class.framework.is(framework)
    }

    /// The reason why it has no values of its own, or why a trace or a gradient depends on it.
    pub fn obstacle(&self) -> Option<Cow<'static, str>> {
        match self.class.role {
            Role::Array => {}
            Role::Value(_) => return Some("is a variable".into()),
            Role::Refused(why) => return Some(format!("is {why}").into()),
        }
        let py = self.value.py();
        let Some(loaded) = attempt(py, loaded::load(py, self.class.framework)) else {
            return Some("is of a framework that cannot be loaded".into());
        };
        if loaded.is_recorded(&self.value) == Some(true) {
            return Some("requires a gradient".into());
        }
        loaded.reason(&self.value).map(|reason| format!("is {}", reason.why).into())
    }
}
