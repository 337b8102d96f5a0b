//! Arrays of any framework, taken apart and put together along an axis.

use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList, PySlice, PyTuple};

use crate::convert;
use crate::error::Result;
use crate::live;

/// Calls with each slice of `lead` along its first axis, and stacks the results.
///
/// # Errors
///
/// What `call` gives, and what the framework raises.
pub fn process<'py>(
    py: Python<'py>,
    lead: &Bound<'py, PyAny>,
    call: &mut dyn FnMut(usize, Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>>,
) -> Result<Bound<'py, PyAny>> {
    let results = PyList::empty(py);
    for index in 0..lead.getattr("shape")?.get_item(0)?.extract()? {
        results.append(call(index, lead.get_item(index)?)?)?;
    }
    let class = convert::class_of(&results.get_item(0)?)?;
    let live = live::live(py, class.framework, live::ends_of(class.framework))?;
    let Some(ops) = &class.framework.array else { return Ok(results.into_any()) };
    let xp = ops.namespace.call(py, [live.module(py)])?;
    Ok(ops.stack.call(py, [live.module(py), &xp, results.as_any()])?)
}

/// The part of an array from `start` to `stop` along an axis.
///
/// # Errors
///
/// What the framework raises.
pub fn part<'py>(
    array: &Bound<'py, PyAny>,
    axis: usize,
    start: usize,
    stop: usize,
) -> Result<Bound<'py, PyAny>> {
    let py = array.py();
    let mut index = vec![PySlice::full(py).into_any(); axis];
    index.push(PySlice::new(py, start as isize, stop as isize, 1).into_any());
    Ok(array.get_item(PyTuple::new(py, index)?)?)
}

/// Arrays of one framework, one after the other along an axis.
///
/// # Errors
///
/// What the framework raises.
pub fn concatenate<'py>(parts: &[Bound<'py, PyAny>], axis: usize) -> Result<Bound<'py, PyAny>> {
    let [first, ..] = parts else {
        return Err(crate::error::Error::Value("there is no array to concatenate".into()));
    };
    let py = first.py();
    let class = convert::class_of(first)?;
    let live = live::live(py, class.framework, live::ends_of(class.framework))?;
    let Some(ops) = &class.framework.array else { return Ok(first.clone()) };
    let xp = ops.namespace.call(py, [live.module(py)])?;
    let arrays = PyList::new(py, parts)?;
    let axis = PyInt::new(py, axis);
    Ok(ops.concatenate.call(py, [live.module(py), &xp, arrays.as_any(), axis.as_any()])?)
}
