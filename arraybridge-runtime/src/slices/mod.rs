//! Stacks of slices: unstacked, processed slice by slice, and stacked again.
//!
//! A stack is a 3-D array of 2-D slices along its first axis. Stacking copies each slice once
//! ([`join`]): either one operation of the framework does it, or one host buffer is filled and handed
//! over. The result is never copied again for each slice.

mod fill;
mod join;
mod shape;

use pyo3::prelude::*;
use pyo3::types::{PyList, PySlice, PyTuple};

use crate::convert::{self, Request};
use crate::framework::detect;
use crate::framework::device::Placement;
use crate::framework::spec::Framework;
use crate::interpreter::error::{Error, Result};
use crate::interpreter::tuples;
use join::{Along, join};
use shape::{check_shapes, ndim_of, shape_of, shape_text, slice_count};

/// Converts a 3-D array to a framework, and returns its 2-D slices. They share its memory if the
/// framework has views.
///
/// # Errors
///
/// [`Error::Value`] when the array is not 3-D; as [`convert::convert_to`].
pub fn unstack<'py>(
    array: &Bound<'py, PyAny>,
    target: &'static Framework,
    placement: Placement,
) -> Result<Vec<Bound<'py, PyAny>>> {
    let count = slice_count(array)?;
    let request = Request { placement, ..Request::default() };
    let array = convert::convert_to(array, target, &request)?;
    let slice = |index| {
        array.py().check_signals()?;
        Ok(array.get_item(index)?)
    };
    (0..count).map(slice).collect()
}

/// Stacks 2-D arrays, of one framework or of several, to a 3-D array.
///
/// Slices of different dtypes get the dtype that NumPy promotes them to.
///
/// # Errors
///
/// [`Error::Value`] when there are no slices, when one is not 2-D, and when their shapes differ;
/// as [`convert::convert_to`].
pub fn stack<'py>(
    slices: &[Bound<'py, PyAny>],
    target: &'static Framework,
    placement: Placement,
) -> Result<Bound<'py, PyAny>> {
    if let Some(index) = slices.iter().position(|slice| ndim_of(slice) != Some(2)) {
        return Err(Error::Value(format!(
            "the slice at index {index} is not a 2D array; its shape is {}",
            shape_text(&slices[index])
        )));
    }
    join(slices, target, placement, Along::NewAxis)
}

/// Calls a function with every 2-D slice of a 3-D array, and merges the results.
///
/// Arrays are stacked along a new first axis, in the framework of the first result. If the function
/// returns tuples, their first elements are merged like this, and each other element becomes a list
/// with one item per slice; a namedtuple stays one. Results that are not arrays become a list.
///
/// # Errors
///
/// [`Error::Value`] when the array is not 3-D or has no slices, and when the results differ in shape
/// or number; what the function raises.
pub fn process<'py>(
    py: Python<'py>,
    lead: &Bound<'py, PyAny>,
    call: &mut dyn FnMut(usize, Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>>,
) -> Result<Bound<'py, PyAny>> {
    process_into(py, lead, None, call)
}

/// As [`process`], but the results are merged in a given framework, on a given device.
///
/// # Errors
///
/// As [`process`].
pub fn process_into<'py>(
    py: Python<'py>,
    lead: &Bound<'py, PyAny>,
    target: Option<(&'static Framework, Placement)>,
    call: &mut dyn FnMut(usize, Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>>,
) -> Result<Bound<'py, PyAny>> {
    let count = slice_count(lead)?;
    if count == 0 {
        return Err(Error::Value(format!(
            "there are no slices to process; the shape of the array is {}",
            shape_text(lead)
        )));
    }
    let mut results = Results::default();
    for index in 0..count {
        // A function without Python frames does not look for an interrupt.
        py.check_signals()?;
        results.add(call(index, lead.get_item(index)?)?, index)?;
    }
    results.merge(py, target)
}

/// What the calls for the slices returned.
#[derive(Default)]
struct Results<'py> {
    /// The first result, if it is a tuple: the merged result has its class.
    tuple: Option<Bound<'py, PyTuple>>,
    /// The results, or the first elements of the tuples.
    main: Vec<Bound<'py, PyAny>>,
    /// The other elements of the tuples, one list for each index.
    others: Vec<Bound<'py, PyList>>,
}

impl<'py> Results<'py> {
    fn add(&mut self, result: Bound<'py, PyAny>, index: usize) -> Result<()> {
        let py = result.py();
        let tuple = result.cast::<PyTuple>().ok().filter(|tuple| !tuple.is_empty()).cloned();
        if index == 0
            && let Some(first) = &tuple
        {
            self.others = (1..first.len()).map(|_| PyList::empty(py)).collect();
            self.tuple = Some(first.clone());
        }
        let outputs = |tuple: &Option<Bound<'py, PyTuple>>| tuple.as_ref().map(|t| t.len());
        if outputs(&tuple) != outputs(&self.tuple) {
            return Err(Error::Value(format!(
                "the function returned a different number of outputs for slice {index} than for the \
                 first slice"
            )));
        }
        let Some(tuple) = tuple else {
            self.main.push(result);
            return Ok(());
        };
        let mut elements = tuple.iter();
        self.main.extend(elements.next());
        for (list, element) in self.others.iter().zip(elements) {
            list.append(element)?;
        }
        Ok(())
    }

    fn merge(
        self,
        py: Python<'py>,
        target: Option<(&'static Framework, Placement)>,
    ) -> Result<Bound<'py, PyAny>> {
        let first = self.main.iter().find_map(detect::class_of);
        let main = match first {
            Some(class) => {
                let (framework, placement) = target.unwrap_or((class.framework, Placement::Auto));
                join(&self.main, framework, placement, Along::NewAxis)?
            }
            None => PyList::new(py, &self.main)?.into_any(),
        };
        let Some(tuple) = self.tuple else { return Ok(main) };
        let others = self.others.into_iter().map(Bound::into_any);
        let elements = PyTuple::new(py, [main].into_iter().chain(others).collect::<Vec<_>>())?;
        match tuples::maker(&tuple) {
            Some(make) => Ok(make.call1((elements,))?),
            None => Ok(elements.into_any()),
        }
    }
}

/// The elements in `start..stop` along an axis; a view if the framework has views.
///
/// # Errors
///
/// [`Error::Value`] when the array has no such axis or no such elements; what the framework raises.
pub fn part<'py>(
    array: &Bound<'py, PyAny>,
    axis: usize,
    start: usize,
    stop: usize,
) -> Result<Bound<'py, PyAny>> {
    let py = array.py();
    let length = shape_of(array).and_then(|shape| shape.get(axis).copied());
    let Some(length) = length.filter(|length| start <= stop && stop <= *length) else {
        return Err(Error::Value(format!(
            "an array of the shape {} has no elements {start} to {stop} along axis {axis}",
            shape_text(array)
        )));
    };
    if start == 0 && stop == length {
        return Ok(array.clone());
    }
    let all = (0..axis).map(|_| PySlice::full(py));
    let range = PySlice::new(py, start as isize, stop as isize, 1);
    let index = PyTuple::new(py, all.chain([range]).collect::<Vec<_>>())?;
    Ok(array.get_item(index)?)
}

/// Concatenates arrays along an existing axis, in the framework and on the device of the first.
///
/// # Errors
///
/// [`Error::Value`] when there are no arrays, when they have no such axis, and when their other axes
/// differ; as [`convert::convert_to`].
pub fn concatenate<'py>(parts: &[Bound<'py, PyAny>], axis: usize) -> Result<Bound<'py, PyAny>> {
    match parts {
        [only] => Ok(only.clone()),
        [first, ..] => {
            let target = convert::class_of(first)?.framework;
            join(parts, target, Placement::Auto, Along::Axis(axis))
        }
        [] => Err(Error::Value("there are no arrays to concatenate".into())),
    }
}

/// Checks that arrays have one shape, so that an operation on two of them does not broadcast.
///
/// # Errors
///
/// [`Error::Value`] with the two shapes.
pub fn check_same_shapes(arrays: &[Bound<'_, PyAny>]) -> Result<()> {
    check_shapes(arrays, Along::NewAxis)
}
