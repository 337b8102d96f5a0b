//! How a function may be called, and what a declaration adds to that.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use super::Declared;
use super::options::{Options, flag};
use crate::interpreter::error::{Error, Result};

/// The keywords that a declaration adds, with what they default to in the shown signature.
const DTYPE_CONVERSION: &str = "dtype_conversion";
const SLICE_BY_SLICE: &str = "slice_by_slice";
/// Upstream's spelling of the former: an object with `default_dtype_conversion`.
const DTYPE_CONFIG: &str = "dtype_config";

/// A function's parameters, as far as a call needs them.
#[derive(Debug, Default)]
pub struct Parameters {
    /// The names that are bound one by one, in order.
    names: Vec<Name>,
    /// How many of them can be given by position.
    positional: usize,
    /// What becomes of arrays in `*args` and in `**kwargs`.
    rest: (Usage, Usage),
    /// Whether the first one is the object of a method.
    method: bool,
    /// Which of the added keywords the function has itself.
    taken: Added<bool>,
    /// Whether the function leads to a declared one. A dtype that a call asks for is that of both
    /// results then.
    forwards: bool,
}

#[derive(Debug)]
struct Name {
    name: String,
    usage: Usage,
}

/// What becomes of the arrays that are given for a parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Usage {
    /// They are no concern of the declaration.
    #[default]
    Ignored,
    /// They are converted.
    Converted,
    /// The function opens them itself.
    Opened,
    /// The function opens them itself, and writes to them.
    Written,
}

impl Usage {
    /// Whether the function opens them itself.
    pub fn is_opened(self) -> bool {
        matches!(self, Usage::Opened | Usage::Written)
    }
}

/// One value for each added keyword.
#[derive(Clone, Copy, Debug, Default)]
struct Added<T> {
    dtype_conversion: T,
    dtype_config: T,
    slice_by_slice: T,
}

/// The added keywords of one call.
#[derive(Default)]
pub struct Extras<'py> {
    /// `dtype_conversion`, or what `dtype_config` says.
    pub dtype_conversion: Option<Bound<'py, PyAny>>,
    /// `slice_by_slice`.
    pub slice_by_slice: bool,
}

impl Parameters {
    /// Reads a function's signature; gives back what the declared function shows as its own.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] when an option names a parameter that is not there; what `inspect` raises when it
    /// names one and the function shows no signature.
    pub fn read<'py>(
        function: &Bound<'py, PyAny>,
        options: &Options,
    ) -> Result<(Parameters, Option<Bound<'py, PyAny>>)> {
        let py = function.py();
        let inspect = py.import(intern!(py, "inspect"))?;
        let signature = match inspect.call_method1(intern!(py, "signature"), (function,)) {
            Ok(signature) => signature,
            // Built-in functions may have none, and then no parameter can be named.
            Err(_) if !options.names_parameters() => {
                let rest = (Usage::Converted, Usage::Converted);
                return Ok((Parameters { rest, ..Parameters::default() }, None));
            }
            Err(error) => return Err(error.into()),
        };
        let mut parameters = Parameters::default();
        let among = |names: &[String], name: &str| names.iter().any(|n| n == name);
        let usage = |name: &str| match &options.arrays {
            _ if among(&options.written, name) => Usage::Written,
            _ if among(&options.opened, name) => Usage::Opened,
            Some(names) if !among(names, name) => Usage::Ignored,
            _ => Usage::Converted,
        };
        let mut all = Vec::new();
        for parameter in signature.getattr("parameters")?.call_method0("values")?.try_iter()? {
            let parameter = parameter?;
            let name: String = parameter.getattr("name")?.extract()?;
            let usage = usage(&name);
            match parameter.getattr("kind")?.extract::<u8>()? {
                kind @ (POSITIONAL_ONLY | POSITIONAL_OR_KEYWORD | KEYWORD_ONLY) => {
                    parameters.positional += usize::from(kind != KEYWORD_ONLY);
                    parameters.names.push(Name { name: name.clone(), usage });
                }
                VAR_POSITIONAL => parameters.rest.0 = usage,
                _ => parameters.rest.1 = usage,
            }
            all.push((name, parameter));
        }
        let first = parameters.names.first().map(|n| n.name.as_str());
        parameters.method = parameters.positional > 0 && matches!(first, Some("self" | "cls"));
        let has = |name: &str| all.iter().any(|(n, _)| n == name);
        parameters.taken = Added {
            dtype_conversion: has(DTYPE_CONVERSION),
            dtype_config: has(DTYPE_CONFIG),
            slice_by_slice: has(SLICE_BY_SLICE),
        };
        parameters.forwards = parameters.taken.dtype_conversion && leads_to_declared(function)?;
        parameters.check(options, all.iter().map(|(name, _)| name.as_str()))?;
        let shown = shown(&signature, all, &parameters.taken, options)?;
        Ok((parameters, Some(shown)))
    }

    fn check<'a>(
        &self,
        options: &Options,
        names: impl Iterator<Item = &'a str> + Clone,
    ) -> Result<()> {
        let arrays = options.arrays.iter().flatten().map(|name| ("arrays", name));
        for (option, name) in arrays.chain(options.sliced.iter().map(|name| ("sliced", name))) {
            if !names.clone().any(|n| n == name) {
                let known: Vec<_> = names.collect();
                return Err(Error::Value(format!(
                    "{option} names {name:?}, which is no parameter of the function; it has {}",
                    known.join(", ")
                )));
            }
        }
        Ok(())
    }

    /// Whether an array that is given for some parameter is converted.
    pub fn converts(&self) -> bool {
        let (positional, named) = self.rest;
        let mut all = self.names.iter().map(|name| name.usage).chain([positional, named]);
        all.any(|usage| usage == Usage::Converted)
    }

    /// What becomes of the arrays of a positional argument, and its place in the order of the
    /// signature.
    #[inline]
    pub fn positional(&self, index: usize) -> (Usage, usize) {
        match self.names.get(index).filter(|_| index < self.positional) {
            Some(_) if self.method && index == 0 => (Usage::Ignored, index),
            Some(name) => (name.usage, index),
            // `*args` stand after what is given by position and before the rest.
            None => (self.rest.0, self.positional),
        }
    }

    /// The same for a keyword argument.
    pub fn keyword(&self, name: &str) -> (Usage, usize) {
        match self.names.iter().position(|n| n.name == name) {
            Some(index) => (self.names[index].usage, index),
            None => (self.rest.1, usize::MAX),
        }
    }

    /// The name of a positional argument.
    pub fn name_of(&self, index: usize) -> Option<&str> {
        self.names.get(index).filter(|_| index < self.positional).map(|n| n.name.as_str())
    }

    /// Whether a keyword is one that the declaration adds.
    pub fn is_added(&self, name: &Bound<'_, PyString>) -> bool {
        match name.to_str() {
            Ok(DTYPE_CONVERSION) => !self.taken.dtype_conversion || self.forwards,
            Ok(DTYPE_CONFIG) => !self.taken.dtype_config,
            Ok(SLICE_BY_SLICE) => !self.taken.slice_by_slice,
            Ok(_) => false,
            Err(_) => true,
        }
    }

    /// Takes the added keywords out of those of a call.
    pub fn take_extras<'py>(
        &self,
        kwargs: &Bound<'py, PyDict>,
        options: &Options,
    ) -> Result<Extras<'py>> {
        let take = |name: &str, taken: bool| -> Result<Option<Bound<'py, PyAny>>> {
            if taken {
                return Ok(None);
            }
            let value = kwargs.get_item(name)?;
            if value.is_some() {
                kwargs.del_item(name)?;
            }
            Ok(value.filter(|value| !value.is_none()))
        };
        let config = take(DTYPE_CONFIG, self.taken.dtype_config)?;
        let config = config.map(|config| config.getattr("default_dtype_conversion")).transpose()?;
        let own = self.taken.dtype_conversion && !self.forwards;
        let conversion = take(DTYPE_CONVERSION, own)?.or(config);
        if let Some(conversion) = conversion.as_ref().filter(|_| self.forwards) {
            kwargs.set_item(DTYPE_CONVERSION, conversion)?;
        }
        let slices = take(SLICE_BY_SLICE, self.taken.slice_by_slice)?;
        Ok(Extras {
            dtype_conversion: conversion,
            slice_by_slice: slices
                .map_or(Ok(options.slice_by_slice), |value| flag(SLICE_BY_SLICE, &value))?,
        })
    }
}

/// Whether a function is a declared one that adds `dtype_conversion`, or wraps one.
fn leads_to_declared(function: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = function.py();
    let partial = py.import(intern!(py, "functools"))?.getattr("partial")?;
    let mut next = Some(function.clone());
    while let Some(function) = next {
        if let Ok(declared) = function.cast::<Declared>() {
            let parameters = &declared.get().core().parameters;
            return Ok(!parameters.taken.dtype_conversion || parameters.forwards);
        }
        let inner = if function.is_instance(&partial)? { "func" } else { "__wrapped__" };
        next = function.getattr_opt(inner)?;
    }
    Ok(false)
}

const POSITIONAL_ONLY: u8 = 0;
const POSITIONAL_OR_KEYWORD: u8 = 1;
const VAR_POSITIONAL: u8 = 2;
const KEYWORD_ONLY: u8 = 3;
const VAR_KEYWORD: u8 = 4;

/// The signature with the added keywords, before `**kwargs`.
fn shown<'py>(
    signature: &Bound<'py, PyAny>,
    parameters: Vec<(String, Bound<'py, PyAny>)>,
    taken: &Added<bool>,
    given: &Options,
) -> Result<Bound<'py, PyAny>> {
    let py = signature.py();
    let class = py.import("inspect")?.getattr("Parameter")?;
    let mut list: Vec<_> = parameters.into_iter().map(|(_, parameter)| parameter).collect();
    let last_kind = list.last().map(|p| p.getattr("kind")?.extract::<u8>()).transpose()?;
    let rest = if last_kind == Some(VAR_KEYWORD) { list.pop() } else { None };
    let kind = class.getattr("KEYWORD_ONLY")?;
    for (name, taken) in
        [(DTYPE_CONVERSION, taken.dtype_conversion), (SLICE_BY_SLICE, taken.slice_by_slice)]
    {
        if !taken {
            let options = PyDict::new(py);
            match name {
                SLICE_BY_SLICE => options.set_item("default", given.slice_by_slice)?,
                _ => options.set_item("default", py.None())?,
            }
            list.push(class.call((PyString::intern(py, name), &kind), Some(&options))?);
        }
    }
    list.extend(rest);
    let options = PyDict::new(py);
    options.set_item("parameters", PyList::new(py, list)?)?;
    Ok(signature.call_method("replace", (), Some(&options))?)
}
