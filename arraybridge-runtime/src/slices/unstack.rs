//! A stack taken apart into its slices.

use pyo3::prelude::*;
use pyo3::types::PyIterator;

use super::join::is_recorded;
use crate::convert::{self, Opened};
use crate::framework::detect::{self, Role};
use crate::framework::device::{self, Device};
use crate::framework::endpoints::Endpoints;
use crate::framework::loaded::{self, LoadedFramework};
use crate::interpreter::error::{Error, Result};
use crate::memory::source::SharedSource;

/// The slices of an array along its first axis, one after the other.
pub(super) struct Slices<'py> {
    array: Bound<'py, PyAny>,
    count: usize,
    next: usize,
    way: Way<'py>,
}

/// How a slice is made.
enum Way<'py> {
    /// The framework iterates over the array. That is faster than an index for each slice.
    Iterate(Bound<'py, PyIterator>),
    /// Each slice is imported as a part of the array's memory.
    Share(Endpoints, &'py LoadedFramework, SharedSource),
    Index,
}

impl<'py> Slices<'py> {
    /// The slices, each of which is made when it is asked for. `count` is the length of the first axis.
    pub fn new(array: Bound<'py, PyAny>, count: usize) -> Slices<'py> {
        let way = match shared(&array) {
            Some(way) => way,
            None if has_views(&array) => iterated(&array),
            None => Way::Index,
        };
        Slices { array, count, next: 0, way }
    }

    /// The slices, which may all be made at once.
    pub fn all(array: Bound<'py, PyAny>, count: usize) -> Slices<'py> {
        let way = shared(&array).unwrap_or_else(|| iterated(&array));
        Slices { array, count, next: 0, way }
    }

    fn slice(&mut self, index: usize) -> Result<Bound<'py, PyAny>> {
        match &mut self.way {
            Way::Iterate(iterator) => match iterator.next() {
                Some(slice) => Ok(slice?),
                None => Err(Error::Value(format!(
                    "the array has {} slices by its shape, and {index} when it is iterated over",
                    self.count
                ))),
            },
            Way::Share(endpoints, loaded, stack) => {
                let slice = Opened { source: stack.slice(index), private: false };
                convert::make_array(self.array.py(), *endpoints, loaded, slice, Device::Host)
            }
            Way::Index => Ok(self.array.get_item(index)?),
        }
    }
}

impl<'py> Iterator for Slices<'py> {
    type Item = Result<Bound<'py, PyAny>>;

    fn next(&mut self) -> Option<Self::Item> {
        let index = self.next;
        if index == self.count {
            return None;
        }
        self.next += 1;
        // A function without Python frames does not look for an interrupt.
        Some(match self.array.py().check_signals() {
            Ok(()) => self.slice(index),
            Err(error) => Err(error.into()),
        })
    }
}

/// Whether the framework's slices share the array's memory, as those of mutable arrays do.
fn has_views(array: &Bound<'_, PyAny>) -> bool {
    detect::class_of(array).is_some_and(|class| !class.framework.immutable)
}

fn iterated<'py>(array: &Bound<'py, PyAny>) -> Way<'py> {
    // Not the iteration by `__getitem__` alone, which ends at an IndexError.
    let iterates = array.get_type().hasattr(pyo3::intern!(array.py(), "__iter__"));
    match array.try_iter() {
        Ok(iterator) if iterates.unwrap_or(false) => Way::Iterate(iterator),
        _ => Way::Index,
    }
}

/// A framework whose arrays never change copies each slice. Where the array is in host memory, and on
/// the only device that the framework has, slices of its memory are imported instead.
fn shared<'py>(array: &Bound<'py, PyAny>) -> Option<Way<'py>> {
    let py = array.py();
    let class = detect::class_of(array)?;
    if !class.framework.immutable || !matches!(class.role, Role::Array) {
        return None;
    }
    let endpoints = Endpoints::of(class.framework);
    let loaded = loaded::load(py, class.framework, endpoints).ok()?;
    let shares = class.framework.import.as_ref().is_some_and(|import| import.shares);
    if !shares || !loaded.has_one_device(py) || is_recorded(py, loaded, array) {
        return None;
    }
    if device::device_of(py, loaded, array).ok()? != Device::Host {
        return None;
    }
    let stack = convert::open_host(array).ok()?;
    Some(Way::Share(endpoints, loaded, stack.source.into()))
}
