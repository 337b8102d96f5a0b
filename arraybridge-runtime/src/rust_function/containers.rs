//! Containers of arrays as arguments: lists, tuples and dicts.
//!
//! The arrays in them have indexes behind those of the parameters, and are opened, claimed and named in
//! errors as single arrays are. They are found before any array is opened, since a sequence may run
//! Python code when it is read.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;
use std::ops::Range;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyMapping, PySequence, PyString, PyTuple};

use super::argument::required;
use super::{Argument, RustCall};
use crate::framework::detect;
use crate::interpreter::classes::shown_name;
use crate::interpreter::error::{Error, Result};

/// The items in the containers of a call. The first items stand for the parameters.
pub(super) struct Items<'py>(RefCell<Vec<Item<'py>>>);

struct Item<'py> {
    /// `None` for a parameter, which the caller keeps alive.
    object: Option<Bound<'py, PyAny>>,
    /// The index of the container that it is in.
    container: usize,
    key: Key,
    /// The indexes of what it contains, if it is a container.
    contents: Option<Range<usize>>,
}

/// The place of an item in its container.
#[derive(Clone)]
pub enum Key {
    Position(usize),
    Name(String),
}

/// The objects that were found in a container.
type Found<'py> = Vec<(Key, Bound<'py, PyAny>)>;

impl Key {
    /// The name of an item of a map.
    fn take_name(&mut self) -> String {
        match self {
            Key::Name(name) => std::mem::take(name),
            Key::Position(position) => position.to_string(),
        }
    }
}

impl<'py> Items<'py> {
    fn new(parameters: usize) -> Box<Items<'py>> {
        let parameter = |index| {
            let key = Key::Position(0);
            Item { object: None, container: index, key, contents: None }
        };
        Box::new(Items(RefCell::new((0..parameters).map(parameter).collect())))
    }

    fn add(&self, container: usize, found: Found<'py>) -> Range<usize> {
        let mut items = self.0.borrow_mut();
        let contents = items.len()..items.len() + found.len();
        items[container].contents = Some(contents.clone());
        items.extend(found.into_iter().map(|(key, object)| {
            let object = Some(object);
            Item { object, container, key, contents: None }
        }));
        contents
    }

    /// The parameter that an item is a part of.
    fn parameter(&self, mut index: usize) -> usize {
        let items = self.0.borrow();
        while items[index].object.is_some() {
            index = items[index].container;
        }
        index
    }

    /// The item as messages name it, such as `images[2]`.
    fn label(&self, parameters: &[super::Parameter], index: usize) -> String {
        let items = self.0.borrow();
        let item = &items[index];
        if item.object.is_none() {
            return parameters[index].name.to_owned();
        }
        let container = self.label(parameters, item.container);
        match &item.key {
            Key::Position(position) => format!("{container}[{position}]"),
            Key::Name(name) => format!("{container}[{name:?}]"),
        }
    }

    fn contents(&self, index: usize) -> Option<Range<usize>> {
        self.0.borrow()[index].contents.clone()
    }

    fn key(&self, index: usize) -> Key {
        self.0.borrow()[index].key.clone()
    }

    fn object(&self, py: Python<'py>, index: usize) -> Option<Borrowed<'_, 'py, PyAny>> {
        let items = self.0.borrow();
        let object = items.get(index)?.object.as_ref()?;
        // SAFETY: the item holds a reference to the object. Items are neither removed nor replaced, so that
        // it does so for as long as `self` is borrowed.
        Some(unsafe { Borrowed::from_ptr(py, object.as_ptr()) })
    }
}

impl<'py> RustCall<'_, 'py> {
    /// The item of a container at an index behind those of the parameters.
    #[cold]
    pub(super) fn item(&self, index: usize) -> Option<Borrowed<'_, 'py, PyAny>> {
        self.items.get()?.object(self.py, index)
    }

    /// The name of an argument, or of what a container holds.
    pub(super) fn label(&self, index: usize) -> String {
        let parameters = self.function.entry.parameters;
        match self.items.get() {
            Some(items) => items.label(parameters, index),
            None => parameters[index].name.to_owned(),
        }
    }

    /// The parameter that an index belongs to.
    pub(super) fn parameter(&self, index: usize) -> usize {
        match self.items.get() {
            Some(items) => items.parameter(index),
            None => index,
        }
    }

    /// Returns whether there are containers.
    pub(super) fn has_containers(&self) -> bool {
        self.items.get().is_some()
    }

    /// All arguments in order, with what containers hold in place of these.
    pub(super) fn arrays(&self) -> impl Iterator<Item = Borrowed<'_, 'py, PyAny>> {
        (0..self.given.len()).flat_map(|index| self.arrays_of(index))
    }

    /// An argument, or what it holds if it is a container.
    pub(super) fn arrays_of(&self, index: usize) -> Vec<Borrowed<'_, 'py, PyAny>> {
        let mut found = Vec::new();
        self.collect(index, &mut found);
        found
    }

    fn collect<'s>(&'s self, index: usize, found: &mut Vec<Borrowed<'s, 'py, PyAny>>) {
        match self.items.get().and_then(|items| items.contents(index)) {
            Some(contents) => contents.for_each(|index| self.collect(index, found)),
            None => found.extend(self.given(index)),
        }
    }

    /// Notes the contents of a container.
    fn add_items(&self, index: usize, found: Found<'py>) -> Range<usize> {
        self.items.get_or_init(|| Items::new(self.given.len())).add(index, found)
    }

    /// The contents of a container, with their keys.
    fn contents(&self, index: usize) -> impl Iterator<Item = (Key, usize)> {
        let items = self.items.get().expect("a container is searched before it is opened");
        let contents = items.contents(index).expect("what the container holds was found");
        contents.map(|index| (items.key(index), index))
    }

    /// The elements of a list, a tuple or another sequence; `count` of them, if that is fixed.
    fn sequence(&self, index: usize, count: Option<usize>) -> Result<Found<'py>> {
        let given = required(self, index)?;
        let elements = elements_of(&given).map_err(|error| self.about(index, error))?;
        let Some(elements) = elements else {
            return Err(self.about(index, no_container(&given, "a list or a tuple of arrays")));
        };
        if let Some(count) = count.filter(|count| *count != elements.len()) {
            let text = format!("expected {count} arrays, not {}", elements.len());
            return Err(self.about(index, Error::Value(text)));
        }
        let keyed = elements.into_iter().enumerate();
        Ok(keyed.map(|(position, element)| (Key::Position(position), element)).collect())
    }

    /// The values of a dict or of another mapping, whose keys are text.
    fn mapping(&self, index: usize) -> Result<Found<'py>> {
        let given = required(self, index)?;
        let read = || -> Result<Vec<_>> {
            let pairs: Vec<_> = match (given.cast::<PyDict>(), given.cast::<PyMapping>()) {
                (Ok(dict), _) => dict.iter().collect(),
                (_, Ok(mapping)) => {
                    let pairs = mapping.items()?;
                    pairs.iter().map(|pair| pair.extract()).collect::<PyResult<_>>()?
                }
                _ => return Err(no_container(&given, "a dict of arrays")),
            };
            let named = pairs.into_iter().map(|(key, value)| match key.cast::<PyString>() {
                Ok(name) => Ok((Key::Name(name.to_str()?.to_owned()), value)),
                Err(_) => Err(no_container(&key, "names as the keys of the dict")),
            });
            named.collect()
        };
        read().map_err(|error| self.about(index, error))
    }
}

/// The elements of a sequence; `None` if it is not one. An array is not, nor is text.
fn elements_of<'py>(given: &Bound<'py, PyAny>) -> Result<Option<Vec<Bound<'py, PyAny>>>> {
    if let Ok(list) = given.cast::<PyList>() {
        return Ok(Some(list.iter().collect()));
    }
    if let Ok(tuple) = given.cast::<PyTuple>() {
        return Ok(Some(tuple.iter().collect()));
    }
    let is_array = || detect::class_of(given).is_some() || given.is_instance_of::<PyString>();
    match given.cast::<PySequence>() {
        Ok(sequence) if !is_array() => {
            Ok(Some(sequence.try_iter()?.collect::<PyResult<Vec<_>>>()?))
        }
        _ => Ok(None),
    }
}

#[cold]
fn no_container(given: &Bound<'_, PyAny>, wanted: &str) -> Error {
    let class = shown_name(&given.get_type());
    Error::Type(format!("expected {wanted}, not {class}"))
}

/// Containers of arrays of one type: how the objects in one are found, and how it is made of the arrays and their keys.
macro_rules! containers {
    ($([$($parameters:tt)*] $container:ty: $found:ident($($count:expr)?), |$items:ident| $made:expr;)*) => {$(
        impl<'a, A: Argument<'a>, $($parameters)*> Argument<'a> for $container {
            type Holder = Vec<(Key, A::Holder)>;

            fn find(call: &RustCall<'_, '_>, index: usize) -> Result<()> {
                let mut contents = call.add_items(index, call.$found(index $(, $count)?)?);
                contents.try_for_each(|index| A::find(call, index))
            }

            fn open<const CONTIGUOUS: bool, const SHARED: bool>(
                call: &RustCall<'_, '_>,
                index: usize,
            ) -> Result<Self::Holder> {
                let contents = call.contents(index);
                contents.map(|(key, at)| Ok((key, A::open::<CONTIGUOUS, SHARED>(call, at)?))).collect()
            }

            fn get(holder: &'a mut Self::Holder) -> Self {
                let $items = holder.iter_mut().map(|(key, holder)| (key, A::get(holder)));
                $made
            }
        }
    )*};
}

containers! {
    [] Vec<A>: sequence(None), |items| items.map(|(_, array)| array).collect();
    [const N: usize] [A; N]: sequence(Some(N)), |items| {
        let found: Vec<A> = items.map(|(_, array)| array).collect();
        found.try_into().unwrap_or_else(|_| unreachable!("the number of arrays was checked"))
    };
    [S: BuildHasher + Default] HashMap<String, A, S>: mapping(), |items| {
        items.map(|(key, array)| (key.take_name(), array)).collect()
    };
    [] BTreeMap<String, A>: mapping(), |items| {
        items.map(|(key, array)| (key.take_name(), array)).collect()
    };
}

macro_rules! tuples {
    ($($count:literal ($($name:ident $index:tt),+))*) => {$(
        impl<'a, $($name: Argument<'a>),+> Argument<'a> for ($($name,)+) {
            type Holder = ($($name::Holder,)+);

            fn find(call: &RustCall<'_, '_>, index: usize) -> Result<()> {
                let contents = call.add_items(index, call.sequence(index, Some($count))?);
                $($name::find(call, contents.start + $index)?;)+
                Ok(())
            }

            fn open<const CONTIGUOUS: bool, const SHARED: bool>(
                call: &RustCall<'_, '_>,
                index: usize,
            ) -> Result<Self::Holder> {
                let mut contents = call.contents(index).map(|(_, at)| at);
                let mut next = || contents.next().expect("the number of arrays was checked");
                Ok(($($name::open::<CONTIGUOUS, SHARED>(call, next())?,)+))
            }

            fn get(holder: &'a mut Self::Holder) -> Self {
                ($($name::get(&mut holder.$index),)+)
            }
        }
    )*};
}

tuples! {
    1 (A 0)
    2 (A 0, B 1)
    3 (A 0, B 1, C 2)
    4 (A 0, B 1, C 2, D 3)
    5 (A 0, B 1, C 2, D 3, E 4)
    6 (A 0, B 1, C 2, D 3, E 4, F 5)
}
