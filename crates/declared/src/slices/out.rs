//! Results that are written, as they come, to an object with `__setitem__`.

use std::iter;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PySlice, PyTuple};

use super::layout::Layout;
use super::lazy;
use super::stack::Stack;
use crate::policy::{self, Lead, Policy};
use arraybridge_host::cast::Scaling;
use arraybridge_runtime::convert::{self, Request};
use arraybridge_runtime::framework::detect;
use arraybridge_runtime::framework::generated::MemoryType;
use arraybridge_runtime::framework::shape;
use arraybridge_runtime::interpreter::error::{Error, Result};
use arraybridge_runtime::interpreter::tuples::{plain_tuple, rebuilt};
use arraybridge_tensor::memory::view::Dims;

/// The object that a call writes its results to, part by part.
#[derive(Clone)]
pub struct Sink<'a, 'py> {
    out: Bound<'py, PyAny>,
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
    /// once, and for an array that is read again.
    pub fn checked(
        out: &Bound<'py, PyAny>,
        reads: Vec<Bound<'py, PyAny>>,
        cut: Vec<Bound<'py, PyAny>>,
        policy: Policy,
        function: &'a str,
    ) -> Result<Sink<'a, 'py>> {
        let arguments = (out, reads, cut, function);
        let dtype = lazy::part(out.py())?.call_method1("check_out", arguments)?;
        if policy.scaling == Scaling::Stretch {
            return Err(Error::Value(format!(
                "{function}(): scaling=\"stretch\" needs all results at once, and out= keeps none; use \
                 scaling=\"unit\", or leave out away"
            )));
        }
        let policy = Policy::from_py(Some(&dtype), None, policy)?;
        Ok(Sink { out: out.clone(), policy, function })
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
        index: Vec<Bound<'py, PyAny>>,
    ) -> Result<()> {
        let py = array.py();
        let host = convert::convert_to(array, MemoryType::Numpy.framework(), &Request::default())?;
        convert::expect_meaning_kept(&host, &self.out)?;
        let cast = policy::finish(&host, &Lead::default(), self.policy, self.function)?;
        let (whole, index) = (PyTuple::new(py, whole)?, PyTuple::new(py, index)?);
        let arguments = (&self.out, whole, index, cast, self.function);
        lazy::part(py)?.call_method1(intern!(py, "write"), arguments)?;
        Ok(())
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
