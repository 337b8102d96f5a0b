//! Results that are written, as they come, to an object with `__setitem__`.

use std::iter;
use std::rc::Rc;

use arraybridge_runtime::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PySlice, PyTuple};

use super::layout::Layout;
use super::lazy;
use super::stack::Stack;
use crate::policy::{self, Conversion, Lead, Policy};
use arraybridge_host::cast::Scaling;
use arraybridge_runtime::convert::{self, Destination, Places, Request};
use arraybridge_runtime::framework::detect;
use arraybridge_runtime::framework::generated::MemoryType;
use arraybridge_runtime::framework::shape;
use arraybridge_runtime::interpreter::error::{Error, Result};
use arraybridge_runtime::interpreter::tuples::{self, plain_tuple, rebuilt};
use arraybridge_tensor::memory::view::Dims;

/// The object that a call writes its results to, part by part.
#[derive(Clone)]
pub struct Sink<'a, 'py> {
    out: Bound<'py, PyAny>,
    /// The same object, if it is an array of a framework.
    destination: Option<Destination<'py>>,
    /// Its memory, if the function reads it too: a result may be a view of that.
    read: Option<Rc<Places>>,
    policy: Policy,
    function: &'a str,
}

impl<'a, 'py> Sink<'a, 'py> {
    /// Writes to an object, in its dtype. `reads` are the arrays that are read again after a part was written, and `cut`
    /// those of which each part is read before its result is written.
    ///
    /// # Errors
    ///
    /// `TypeError` for what cannot be written to part by part; [`Error::Value`] for a policy that needs all results at
    /// once, for an array that is read again, and for one whose elements share memory with each other.
    pub fn checked(
        out: &Bound<'py, PyAny>,
        reads: Vec<Bound<'py, PyAny>>,
        cut: Vec<Bound<'py, PyAny>>,
        policy: Policy,
        function: &'a str,
    ) -> Result<Sink<'a, 'py>> {
        let class = detect::class_of(out).filter(|class| class.framework.immutable);
        if let Some(class) = class {
            let name = class.framework.name;
            let text = format!("{function}(): out is an array of {name}, which never changes");
            return Err(Error::Type(text));
        }
        let destination = Destination::of(out)?;
        let py = out.py();
        let known = destination.as_ref().and_then(Destination::dtype);
        let dtype = lazy::part(py)?.call_method1("check_out", (out, function, known.is_some()))?;
        let wrong = |text: &str| Err(Error::Value(format!("{function}(): out {text}")));
        let places = Places::of(out)?;
        if places.as_ref().is_some_and(Places::overlap_themselves) {
            return wrong("has elements that share memory with each other; write to another array");
        }
        for array in &reads {
            let is_same = match (&places, Places::of(array)?) {
                (Some(ours), Some(theirs)) => ours.overlap(&theirs),
                _ => convert::have_one_owner(out, array)? || lazy::is_same(out, array)?,
            };
            if is_same {
                return wrong(
                    "is an array that is read again after a part of it was written, for a tile with a halo or as an \
                     argument that is not cut; write to another array",
                );
            }
        }
        let mut is_read = false;
        for array in &cut {
            let (Some(ours), Some(theirs)) = (&places, Places::of(array)?) else { continue };
            if !ours.overlap(&theirs) {
                continue;
            }
            if !ours.begin_alike(&theirs) {
                return wrong(
                    "shares memory with an array that is cut, at other places: a part would be read after the result \
                     of another one was written there; write to another array, or to the same one",
                );
            }
            is_read = true;
        }
        if policy.scaling == Scaling::Stretch {
            return Err(Error::Value(format!(
                "{function}(): scaling=\"stretch\" needs all results at once, and out= keeps none; use \
                 scaling=\"unit\", or leave out away"
            )));
        }
        let policy = match known {
            Some(dtype) => Policy { conversion: Conversion::Force(dtype), ..policy },
            None => Policy::from_py(Some(&dtype), None, policy)?,
        };
        let read = places.filter(|_| is_read).map(Rc::new);
        Ok(Sink { out: out.clone(), destination, read, policy, function })
    }

    /// The object that is written to.
    pub fn out(&self) -> &Bound<'py, PyAny> {
        &self.out
    }

    /// Casts an array, and writes it to the whole of the object.
    pub fn write_whole(&self, array: &Bound<'py, PyAny>) -> Result<()> {
        let shape = shape::of(array).unwrap_or_default();
        let whole = shape.iter().map(|_| PySlice::full(array.py()).into_any());
        self.write(array, &shape, whole.collect())
    }

    /// Casts a slice, and writes it to its place among so many along the first axis.
    pub fn write_row(&self, slice: &Bound<'py, PyAny>, count: usize, at: usize) -> Result<()> {
        let shape = shape::of(slice).unwrap_or_default();
        let whole: Dims<usize> = iter::once(count).chain(shape).collect();
        let layout = Layout::first(1, whole.len());
        self.write(slice, &whole, layout.index(slice.py(), &[at], whole.len()))
    }

    /// Casts an array, and writes it to a region of the whole, which must have this shape.
    ///
    /// # Errors
    ///
    /// `ValueError` when the whole has another shape; the error of a refused array when it has a mask or a unit that
    /// would be lost; as [`policy::finish`]; what the object raises.
    pub fn write(
        &self,
        array: &Bound<'py, PyAny>,
        whole: &[usize],
        mut index: Vec<Bound<'py, PyAny>>,
    ) -> Result<()> {
        let py = array.py();
        let finish = |array: &Bound<'py, PyAny>| {
            policy::finish(array, &Lead::default(), self.policy, self.function)
        };
        let on_host = || -> Result<Bound<'py, PyAny>> {
            let numpy = MemoryType::Numpy.framework();
            let host = convert::convert_to(array, numpy, &Request::default())?;
            convert::expect_meaning_kept(&host, &self.out)
                .map_err(|error| error.in_place(self.function, "the result"))?;
            // The policy leaves a masked array alone.
            if !convert::can_be_masked(&host) {
                return finish(&host);
            }
            let cast = finish(&host.call_method1("filled", (0,))?)?;
            if convert::meaning(&host)?.is_none() {
                return Ok(cast);
            }
            let class = py.import("numpy.ma")?.getattr("MaskedArray")?;
            Ok(class.call1((cast, host.getattr("mask")?))?)
        };
        let Some(destination) = &self.destination else {
            let (whole, index) = (PyTuple::new(py, whole)?, PyTuple::new(py, index)?);
            let arguments = (&self.out, whole, index, on_host()?, self.function);
            lazy::part(py)?.call_method1(intern!(py, "write"), arguments)?;
            return Ok(());
        };
        self.expect_shape(whole)?;
        // OpenCL refuses what pyclesperanto makes of an index along the last axes.
        let in_ranges = destination.framework().name == "pyclesperanto";
        let values = match destination.is_reached_from(array)? && !in_ranges {
            true => finish(array)?,
            false if in_ranges => in_ranges_of(&mut index, &on_host()?)?,
            false => on_host()?,
        };
        let index = PyTuple::new(py, index)?;
        let is_read = match &self.read {
            Some(ours) => Places::of(&values)?.is_some_and(|theirs| ours.overlap(&theirs)),
            None => false,
        };
        let request = Request { copy: is_read.then_some(true), ..Request::default() };
        destination.write(index.as_any(), &values, &request)
    }

    /// Checks that the array that is written to has the shape of the whole.
    fn expect_shape(&self, whole: &[usize]) -> Result<()> {
        let found = shape::of(&self.out).unwrap_or_default();
        if *found == *whole {
            return Ok(());
        }
        let (py, function) = (self.out.py(), self.function);
        Err(Error::Value(format!(
            "{function}(): out has the shape {}, and the result the shape {}",
            PyTuple::new(py, found)?,
            PyTuple::new(py, whole)?
        )))
    }

    /// Gives the first array of a result to `write`, and leaves [`written`] in its place.
    pub fn take(
        &self,
        result: Bound<'py, PyAny>,
        write: impl FnOnce(&Bound<'py, PyAny>) -> Result<()>,
    ) -> Result<Bound<'py, PyAny>> {
        let written = written(result.py())?;
        if detect::class_of(&result).is_some() {
            write(&result)?;
            return Ok(written);
        }
        let Some(tuple) = plain_tuple(&result) else { return Err(self.unused()) };
        let mut elements: Vec<_> = tuple.iter().collect();
        let first = elements.iter_mut().find(|element| detect::class_of(element).is_some());
        let Some(first) = first else { return Err(self.unused()) };
        write(first)?;
        *first = written;
        Ok(rebuilt(&result, elements)?)
    }

    /// Writes the first array of the result for a slice, and leaves [`written`] in its place.
    pub fn write_slice(
        &self,
        stack: &Stack<'_, 'py>,
        position: &[usize],
        result: Bound<'py, PyAny>,
    ) -> Result<Bound<'py, PyAny>> {
        let (layout, lengths) = (stack.layout(), stack.lengths());
        self.take(result, |array| {
            let shape = shape::of(array).unwrap_or_default();
            let axes = lengths.len() + shape.len();
            let first: Dims<usize> = lengths.iter().chain(&shape).copied().collect();
            let whole = match layout.result_order(axes) {
                Some(order) => order.iter().map(|axis| first[*axis]).collect(),
                None => first,
            };
            self.write(array, &whole, layout.index(array.py(), position, axes))
        })
    }

    /// The merged results of slices that were written: [`written`] in place of the list of them.
    pub fn merged(&self, results: Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        let written = written(results.py())?;
        let Some(tuple) = plain_tuple(&results) else { return Ok(written) };
        let mut elements: Vec<_> = tuple.iter().collect();
        if let Some(first) = elements.iter_mut().find(|element| all_are(element, &written)) {
            *first = written;
        }
        Ok(rebuilt(&results, elements)?)
    }

    /// The error that a result has no array.
    #[cold]
    pub fn unused(&self) -> Error {
        let function = self.function;
        Error::Value(format!(
            "{function}(): the function returned no array that could be written to out"
        ))
    }

    /// The result with the array that was written in its place.
    pub fn settle(&self, result: Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        let written = written(result.py())?;
        if result.is(&written) {
            return Ok(self.out.clone());
        }
        let mut elements: Vec<_> = match (plain_tuple(&result), result.cast::<PyList>()) {
            (Some(tuple), _) => tuple.iter().collect(),
            (None, Ok(list)) => list.iter().collect(),
            (None, Err(_)) => return Ok(result),
        };
        if let Some(first) = elements.iter_mut().find(|element| element.is(&written)) {
            *first = self.out.clone();
        }
        Ok(rebuilt(&result, elements)?)
    }
}

/// Refuses arrays for results of their own that share memory: one result would be written over another one.
///
/// # Errors
///
/// [`Error::Value`] with the places of two in the list.
pub fn expect_apart(outs: &[Bound<'_, PyAny>], function: &str) -> Result<()> {
    let (mut places, mut found) = (Vec::new(), Vec::new());
    for (at, out) in outs.iter().enumerate() {
        if let Some(place) = Places::of(out)? {
            places.push((place, true));
            found.push(at);
        }
    }
    let Some(pair) = Places::find_overlap(&places) else { return Ok(()) };
    let [one, other] = pair.map(|index| found[index]);
    let (first, second) = (one.min(other), one.max(other));
    Err(Error::Value(format!(
        "{function}(): out[{first}] and out[{second}] share memory; write to arrays that do not"
    )))
}

/// The object that stands for an array that was written, until the result is settled.
pub fn written(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    lazy::part(py)?.getattr(intern!(py, "WRITTEN"))
}

/// Returns whether the results of all slices are None.
pub fn is_nothing(results: &Bound<'_, PyAny>) -> bool {
    all_are(results, results.py().None().bind(results.py()))
}

/// Returns whether the results of all slices are this object.
fn all_are(results: &Bound<'_, PyAny>, object: &Bound<'_, PyAny>) -> bool {
    let is_it = |result: Bound<'_, PyAny>| result.is(object) || all_are(&result, object);
    results.cast::<PyList>().is_ok_and(|list| list.iter().all(is_it))
}

/// Makes ranges of the integers of an index, and gives a NumPy array the axes that it has for them.
fn in_ranges_of<'py>(
    index: &mut [Bound<'py, PyAny>],
    values: &Bound<'py, PyAny>,
) -> Result<Bound<'py, PyAny>> {
    let (py, mut axes) = (values.py(), Vec::new());
    for (axis, at) in index.iter_mut().enumerate() {
        if let Ok(number) = at.extract::<usize>() {
            *at = tuples::slice(py, number..number + 1)?;
            axes.push(axis);
        }
    }
    Ok(py.import("numpy")?.call_method1("expand_dims", (values, axes))?)
}
