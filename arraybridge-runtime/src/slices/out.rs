//! Results that are written, as they come, to an object with `__setitem__`.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PySlice, PyTuple};

use super::layout::Layout;
use super::lazy;
use crate::convert::{self, Request};
use crate::framework::detect;
use crate::framework::generated::MemoryType;
use crate::framework::shape;
use crate::host::cast::Scaling;
use crate::interpreter::error::{Error, Result};
use crate::interpreter::tuples::{plain_tuple, rebuilt};
use crate::memory::view::Dims;
use crate::policy::{self, Lead, Policy};

/// What a call writes its results to, part by part.
#[derive(Clone)]
pub struct Sink<'a, 'py> {
    out: Bound<'py, PyAny>,
    policy: Policy,
    function: &'a str,
}

impl<'a, 'py> Sink<'a, 'py> {
    /// Writes to an object in the dtype that the policy of a function forces.
    pub fn new(out: Bound<'py, PyAny>, policy: Policy, function: &'a str) -> Sink<'a, 'py> {
        Sink { out, policy, function }
    }

    /// Writes to an object, in its dtype. `overlap` says whether parts of what is read are read again.
    ///
    /// # Errors
    ///
    /// `TypeError` for what cannot be written to part by part; [`Error::Value`] for a policy that needs all results at
    /// once, and for the array that is read, if its parts overlap.
    pub fn checked(
        out: &Bound<'py, PyAny>,
        (read, overlap): (&Bound<'py, PyAny>, bool),
        policy: Policy,
        function: &'a str,
    ) -> Result<Sink<'a, 'py>> {
        let arguments = (out, read, overlap, function);
        let dtype = lazy::module(out.py())?.call_method1("check_out", arguments)?;
        if policy.scaling == Scaling::Stretch {
            return Err(Error::Value(format!(
                "{function}(): scaling=\"stretch\" needs all results at once, and out= keeps none; use \
                 scaling=\"unit\", or leave out away"
            )));
        }
        let policy = Policy::from_py(Some(&dtype), None, policy)?;
        Ok(Sink::new(out.clone(), policy, function))
    }

    /// What is written to, and the policy for its dtype.
    pub fn parts(self) -> (Bound<'py, PyAny>, Policy) {
        (self.out, self.policy)
    }

    /// Casts an array, and writes it to the whole of the object.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub fn write_whole(&self, array: &Bound<'py, PyAny>) -> Result<()> {
        let shape = shape::of(array).unwrap_or_default();
        let whole = shape.iter().map(|_| PySlice::full(array.py()).into_any());
        self.write(array, &shape, whole.collect())
    }

    /// Casts an array, and writes it to a region of the whole, which must have this shape.
    ///
    /// # Errors
    ///
    /// `ValueError` when the whole has another shape; as [`policy::finish`]; what the object raises.
    pub fn write(
        &self,
        array: &Bound<'py, PyAny>,
        whole: &[usize],
        index: Vec<Bound<'py, PyAny>>,
    ) -> Result<()> {
        let py = array.py();
        let host = convert::convert_to(array, MemoryType::Numpy.framework(), &Request::default())?;
        let cast = policy::finish(&host, &Lead::default(), self.policy, self.function)?;
        let (whole, index) = (PyTuple::new(py, whole)?, PyTuple::new(py, index)?);
        let arguments = (&self.out, whole, index, cast, self.function);
        lazy::module(py)?.call_method1(intern!(py, "write"), arguments)?;
        Ok(())
    }

    /// Gives the first array of a result to `write`, and leaves None in its place.
    ///
    /// # Errors
    ///
    /// What `write` returns.
    pub fn take(
        &self,
        result: Bound<'py, PyAny>,
        write: impl FnOnce(&Bound<'py, PyAny>) -> Result<()>,
    ) -> Result<Bound<'py, PyAny>> {
        let none = result.py().None().into_bound(result.py());
        if detect::class_of(&result).is_some() {
            write(&result)?;
            return Ok(none);
        }
        let Some(tuple) = plain_tuple(&result) else { return Err(self.unused()) };
        let mut elements: Vec<_> = tuple.iter().collect();
        let first = elements.iter_mut().find(|element| detect::class_of(element).is_some());
        let Some(first) = first else { return Err(self.unused()) };
        write(first)?;
        *first = none;
        Ok(rebuilt(&result, elements)?)
    }

    /// Writes the first array of the result for a slice, and leaves None in its place.
    ///
    /// # Errors
    ///
    /// As [`take`](Self::take) and [`write`](Self::write).
    pub fn write_slice(
        &self,
        layout: &Layout,
        lengths: &[usize],
        position: &[usize],
        result: Bound<'py, PyAny>,
    ) -> Result<Bound<'py, PyAny>> {
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

    /// The merged results of slices that were written: None in place of the list of them.
    ///
    /// # Errors
    ///
    /// What building the tuple raises.
    pub fn merged(&self, results: Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        let none = results.py().None().into_bound(results.py());
        let Some(tuple) = plain_tuple(&results) else { return Ok(none) };
        let mut elements: Vec<_> = tuple.iter().collect();
        if let Some(first) = elements.iter_mut().find(|element| is_nothing(element)) {
            *first = none;
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
    ///
    /// # Errors
    ///
    /// What building the tuple raises.
    pub fn settle(&self, result: Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        if result.is_none() {
            return Ok(self.out.clone());
        }
        let Some(tuple) = plain_tuple(&result) else { return Ok(result) };
        let mut elements: Vec<_> = tuple.iter().collect();
        if let Some(first) = elements.iter_mut().find(|element| element.is_none()) {
            *first = self.out.clone();
        }
        Ok(rebuilt(&result, elements)?)
    }
}

/// Whether the results of all slices are None.
pub fn is_nothing(results: &Bound<'_, PyAny>) -> bool {
    let is_nothing = |result: Bound<'_, PyAny>| result.is_none() || is_nothing(&result);
    results.cast::<PyList>().is_ok_and(|list| list.iter().all(is_nothing))
}
