//! Stacks of slices: taken apart, processed one by one, and put together again.
//!
//! A stack is a 3-D array of 2-D slices along its first axis. Putting slices together touches each
//! of them once ([`join`]): either one operation of the framework, or one host buffer that is
//! filled and handed over, never an array that is copied for every slice.

mod join;

use pyo3::prelude::*;
use pyo3::types::{PyList, PySlice, PyTuple};

use crate::convert::{self, Request};
use crate::framework::detect;
use crate::framework::device::Placement;
use crate::framework::spec::Framework;
use crate::interpreter::error::{Error, Result};
use crate::interpreter::tuples;
use crate::memory::view::Dims;
use join::{Along, join};

/// The lengths of an object's axes, `None` where it has no shape or a trace does not know it.
fn shape_of(array: &Bound<'_, PyAny>) -> Option<Dims<usize>> {
    let shape = array.getattr(pyo3::intern!(array.py(), "shape")).ok()?;
    shape.try_iter().ok()?.map(|length| length.ok()?.extract().ok()).collect()
}

/// How many axes an object has; a trace can know it without their lengths.
fn ndim_of(array: &Bound<'_, PyAny>) -> Option<usize> {
    array.getattr(pyo3::intern!(array.py(), "shape")).ok()?.len().ok()
}

fn shape_text(array: &Bound<'_, PyAny>) -> String {
    let shape = array.getattr(pyo3::intern!(array.py(), "shape"));
    shape.map_or_else(|_| String::from("unknown"), |shape| shape.to_string())
}

/// The number of slices of a 3-D stack.
fn slices_of(array: &Bound<'_, PyAny>) -> Result<usize> {
    if ndim_of(array) != Some(3) {
        return Err(Error::Value(format!(
            "a stack of slices is a 3D array, and this one has the shape {}",
            shape_text(array)
        )));
    }
    shape_of(array).map(|shape| shape[0]).ok_or_else(|| {
        Error::Value("the number of slices is not known; give the trace a static shape".into())
    })
}

/// The 2-D arrays of a 3-D one, brought to a framework first. Where the framework has views, they
/// share the array's memory.
///
/// # Errors
///
/// [`Error::Value`] when the array is not 3-D; as [`convert::convert_to`].
pub fn unstack<'py>(
    array: &Bound<'py, PyAny>,
    target: &'static Framework,
    placement: Placement,
) -> Result<Vec<Bound<'py, PyAny>>> {
    let count = slices_of(array)?;
    let request = Request { placement, ..Request::default() };
    let array = convert::convert_to(array, target, &request)?;
    (0..count).map(|index| Ok(array.get_item(index)?)).collect()
}

/// A 3-D array of 2-D ones, of one framework or of several.
///
/// Slices of different dtypes get the one that NumPy would promote them to.
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
    let flat = |slice: &Bound<'py, PyAny>| ndim_of(slice) == Some(2);
    if let Some(index) = slices.iter().position(|slice| !flat(slice)) {
        return Err(Error::Value(format!(
            "every slice has to be a 2D array, and the one at index {index} has the shape {}",
            shape_text(&slices[index])
        )));
    }
    join(slices, target, placement, Along::New)
}

/// Calls a function with every 2-D slice of a 3-D array, and puts its results together.
///
/// Arrays are stacked along a new first axis, in the framework of the first. Of a tuple, that is
/// done with the first element, and each of the others becomes a list with one element a slice; a
/// namedtuple stays one. Results that are no arrays become a list.
///
/// # Errors
///
/// [`Error::Value`] when the array is not 3-D, has no slices, or when the results differ in their
/// shapes or in their number; what the function raises.
pub fn process<'py>(
    py: Python<'py>,
    lead: &Bound<'py, PyAny>,
    call: &mut dyn FnMut(usize, Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>>,
) -> Result<Bound<'py, PyAny>> {
    process_into(py, lead, None, call)
}

/// As [`process`]; the results are put together in a framework of choice, on a device of choice.
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
    let count = slices_of(lead)?;
    if count == 0 {
        return Err(Error::Value(format!(
            "there are no slices to process in an array of the shape {}",
            shape_text(lead)
        )));
    }
    let mut results = Results::default();
    for index in 0..count {
        results.add(call(index, lead.get_item(index)?)?, index)?;
    }
    results.together(py, target)
}

/// What the calls for the slices returned.
#[derive(Default)]
struct Results<'py> {
    /// The first tuple, whose class the result has.
    tuple: Option<Bound<'py, PyTuple>>,
    /// The results, or the first elements of the tuples.
    mains: Vec<Bound<'py, PyAny>>,
    /// The other elements of the tuples, one list for each place.
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
                "the function returned another number of outputs for slice {index} than for the \
                 first one"
            )));
        }
        let Some(tuple) = tuple else {
            self.mains.push(result);
            return Ok(());
        };
        let mut elements = tuple.iter();
        self.mains.extend(elements.next());
        for (list, element) in self.others.iter().zip(elements) {
            list.append(element)?;
        }
        Ok(())
    }

    fn together(
        self,
        py: Python<'py>,
        target: Option<(&'static Framework, Placement)>,
    ) -> Result<Bound<'py, PyAny>> {
        let first = self.mains.iter().find_map(detect::class_of);
        let main = match first {
            Some(class) => {
                let (framework, placement) = target.unwrap_or((class.framework, Placement::Auto));
                join(&self.mains, framework, placement, Along::New)?
            }
            None => PyList::new(py, &self.mains)?.into_any(),
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

/// The elements from `start` to before `stop` along an axis; a view where the framework has views.
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
    let whole = (0..axis).map(|_| PySlice::full(py));
    let chosen = PySlice::new(py, start as isize, stop as isize, 1);
    let index = PyTuple::new(py, whole.chain([chosen]).collect::<Vec<_>>())?;
    Ok(array.get_item(index)?)
}

/// Arrays put together along an existing axis, in the framework and on the device of the first.
///
/// # Errors
///
/// [`Error::Value`] when there are none, when they have no such axis, and when their other axes
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
