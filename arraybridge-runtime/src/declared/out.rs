//! Results that are written, as they come, to an object with `__setitem__`.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PySlice, PyTuple};

use super::lazy;
use crate::convert::{self, Request};
use crate::framework::detect;
use crate::framework::generated::MemoryType;
use crate::interpreter::error::{Error, Result};
use crate::interpreter::tuples::{plain_tuple, rebuilt};
use crate::memory::shape;
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

    /// The error that a result has no array.
    #[cold]
    pub fn unused(&self) -> Error {
        let function = self.function;
        Error::Value(format!("{function}(): the function returned no array that could be written to out"))
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
