//! Objects of no framework among the arguments.

use std::collections::BTreeMap;

use arraybridge_runtime::interpreter::package::Part;
use pyo3::prelude::*;

use super::{ArgumentKey, ArgumentSlot, ArgumentSlots, leaves};
use crate::declared::definition::Definition;
use crate::declared::options::{Keep, Options};
use arraybridge_runtime::convert;
use arraybridge_runtime::framework::detect;
use arraybridge_runtime::interpreter::containers::Container;
use arraybridge_runtime::interpreter::error::{Error, Failure, Result};

/// Objects of no framework among the arguments.
#[derive(Default)]
pub struct FoundObjects<'py> {
    /// The objects that are like arrays, with what was made of them. The same object stays the same array.
    pub seen: Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>,
    /// The places among them, by the addresses of the objects.
    seen_at: BTreeMap<usize, usize>,
    /// The first argument, if it is an object that the function is called for part by part.
    pub parted: Option<Bound<'py, PyAny>>,
    /// Objects with an array inside, and the arguments that they are or are in.
    pub wrapped: Vec<(ArgumentKey<'py>, Bound<'py, PyAny>)>,
    /// Scalars of NumPy, which become numbers for another framework.
    pub scalars: ArgumentSlots<'py>,
    /// True if labels of two of these are in another order: no labels are those of the result then.
    pub is_out_of_order: bool,
}

impl<'py> FoundObjects<'py> {
    /// Notes the array that was made of an object.
    pub fn see(&mut self, object: Bound<'py, PyAny>, array: Bound<'py, PyAny>) {
        self.seen_at.entry(object.as_ptr() as usize).or_insert(self.seen.len());
        self.seen.push((object, array));
    }

    /// The array that was made of an object.
    pub fn array_of(&self, object: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
        let place = self.seen_at.get(&(object.as_ptr() as usize))?;
        Some(self.seen[*place].1.clone())
    }
}

/// The part of the package that knows the objects with an array inside.
pub fn wrappers(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    Part::Wrappers.get(py)
}

/// Returns whether a function is called for an object part by part: for each variable of a data set, or each block
/// of an array that is computed later.
#[cold]
pub fn is_parted(value: &Bound<'_, PyAny>) -> Result<bool> {
    if !convert::is_wrapper(value) {
        return Ok(false);
    }
    Ok(wrappers(value.py())?.call_method1("_is_parted", (value,))?.is_truthy()?)
}

/// Returns whether an argument is, or contains, an object that has an array inside and that a result can be put into.
pub fn holds_wrapper(value: &Bound<'_, PyAny>, options: &Options) -> bool {
    if detect::class_of(value).is_some() {
        return options.keeps_units() && convert::may_have_unit(value);
    }
    let Some(container) = Container::of(value) else { return convert::is_wrapper(value) };
    let mut holds = false;
    let walked = leaves::walk(&container, &mut |_, item| {
        holds |= detect::class_of(&item).is_none() && convert::is_wrapper(&item);
        Ok(())
    });
    // What is nested too deep is refused where the arrays are looked for.
    holds || walked.is_err()
}

/// The error of a lead that is refused for its unit, with the way out.
#[cold]
pub fn with_unit_way(definition: &Definition, lead: &ArgumentSlot<'_>, mut error: Error) -> Error {
    let options = &definition.options;
    if let Error::Conversion(error) = &mut error
        && error.failure == Failure::Array
        && options.rewraps()
        && options.keep == Keep::Default
        && convert::may_have_unit(&lead.value)
    {
        error.reason.push_str("; if the function keeps the unit, declare it with keep=True");
    }
    error
}
