//! The options of a declaration.

use arraybridge_runtime::interpreter::package::Part;
use std::fmt;

use pyo3::conversion::FromPyObjectOwned;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString};

use super::names::{self, flag};
use super::tiles::Tiles;
use crate::declared::ladder::{Join, Rung};
use crate::policy::{self, Conversion, Narrow, Policy, Range};
use arraybridge_host::cast::Scaling;
use arraybridge_runtime::framework::device::Placement;
use arraybridge_runtime::framework::spec::{DType, Framework};
use arraybridge_runtime::interpreter::error::{Error, Result};

/// The framework that results are converted to.
#[derive(Clone, Copy, Debug)]
pub enum OutputType {
    /// A given one.
    Fixed(&'static Framework),
    /// The framework of the first array argument.
    Input,
}

/// The treatment of the object that the lead is in, such as a labelled array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The result is in one like it, where nothing has to be known of the function.
    Default,
    /// The function keeps the unit of its argument, and may be called for each block of it.
    Always,
    /// The same, and what cannot be kept is an error.
    Strict,
    /// The result is the array alone.
    Never,
}

impl Keep {
    /// Reads the argument `keep`.
    ///
    /// # Errors
    ///
    /// [`Error::Type`] for anything but None, a bool and "strict".
    fn read(value: Option<&Bound<'_, PyAny>>) -> Result<Keep> {
        let Some(value) = value else { return Ok(Keep::Default) };
        if value.cast::<PyString>().is_ok_and(|text| text == "strict") {
            return Ok(Keep::Strict);
        }
        match value.extract() {
            Ok(true) => Ok(Keep::Always),
            Ok(false) => Ok(Keep::Never),
            Err(_) => {
                let text = format!("keep must be True, False or \"strict\", not {}", value.repr()?);
                Err(Error::Type(text))
            }
        }
    }
}

/// An axis of an array.
#[derive(Clone, Debug, FromPyObject)]
pub enum AxisName {
    /// By its index, counted from the last one if it is negative.
    Index(isize),
    /// By the name that the array has for it.
    Name(String),
}

impl fmt::Display for AxisName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AxisName::Index(index) => write!(f, "{index}"),
            AxisName::Name(name) => write!(f, "{name:?}"),
        }
    }
}

/// A declaration's options, read and checked.
#[derive(Debug)]
pub struct Options {
    /// The framework that the function works on; its device, streams and allocator are used.
    pub execution: &'static Framework,
    /// The framework that array arguments are converted to.
    pub input: &'static Framework,
    /// The framework of the arrays that callers usually bring, according to the declaration. It is
    /// only reported.
    pub usual_input: &'static Framework,
    /// The framework that results are converted to.
    pub output: OutputType,
    /// The dtype that arguments are cast to.
    pub input_dtype: Option<DType>,
    /// The parameters whose arrays are converted; `None` for all of them.
    pub arrays: Option<Vec<String>>,
    /// The parameter whose array is the lead, if the declaration says it.
    pub lead: Option<String>,
    /// The parameters whose arrays the function writes to; `None` if the declaration does not say it.
    pub writes: Option<Vec<String>>,
    /// The parameters that are sliced and split together with the first array.
    pub sliced: Vec<String>,
    /// The device that arguments are brought to.
    pub device: Placement,
    /// The value of `copy` for arguments, as in `convert`.
    pub copy: Option<bool>,
    /// The dtype of results, if the declaration says it.
    pub conversion: Option<Conversion>,
    /// The way in which floating point results become integers, if the declaration gives it.
    pub scaling: Option<Scaling>,
    /// The integers between which they are scaled, if the declaration says it.
    pub range: Option<Range>,
    /// The treatment of arguments whose dtype the framework lacks, if the declaration says it.
    pub narrow: Option<Narrow>,
    /// The ways in which a call is retried when memory runs out, in order.
    pub ladder: Vec<Rung>,
    /// The axis along which the first array may be split. A negative one is counted from the last.
    pub split_axis: Option<isize>,
    /// The way in which the results of the parts are joined, if the declaration gives it.
    pub join: Option<Join>,
    /// The function that is called on the host instead.
    pub host: Option<Py<PyAny>>,
    /// A test of the result.
    pub contract: Option<Py<PyAny>>,
    /// True if the gradients of other frameworks flow through the function.
    pub differentiable: bool,
    /// True if calls are made slice by slice, unless they say otherwise.
    pub slice_by_slice: bool,
    /// The axes of a slice, if the declaration says it.
    pub slice_axes: Option<Vec<AxisName>>,
    /// How calls are made tile by tile, if they are.
    pub tiles: Option<Tiles>,
    /// True if results of immutable arrays are copied, so that they can be written to.
    pub writable: bool,
    /// The treatment of the object that the lead is in.
    pub keep: Keep,
    /// The parameters whose arrays, of any framework, the function opens itself.
    pub opened: Vec<String>,
    /// The opened parameters that it writes to.
    pub written: Vec<String>,
    /// True if the function returns arrays of the output framework.
    pub delivers: bool,
    /// The added keywords that its signature shows, if not all.
    pub shown: Option<Vec<String>>,
}

/// The option with the derivative that is given by hand, which `defvjp` sets.
pub const RULE: &str = "vjp";

/// Checks that the keyword arguments of a decorator are options for everyone.
///
/// # Errors
///
/// [`Error::Type`] for any other.
pub fn check_public(keywords: &Bound<'_, PyDict>) -> Result<()> {
    static CHECK: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    Part::Options.attribute(keywords.py(), &CHECK, "check_names")?.call1((keywords,))?;
    Ok(())
}

impl Options {
    /// Reads the keyword arguments of a declaration.
    ///
    /// # Errors
    ///
    /// [`Error::Type`] for an unknown option or a value of a wrong type, [`Error::Value`] for a value
    /// that is not allowed.
    pub fn read(execution: &'static Framework, keywords: &Bound<'_, PyDict>) -> Result<Options> {
        static READ: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let read = Part::Options.attribute(keywords.py(), &READ, "read")?;
        let checked = read.call1((keywords,))?;
        let keywords = CheckedKeywords(checked.cast_into().map_err(PyErr::from)?);
        let usual_input = keywords.framework("input_type")?.unwrap_or(execution);
        let delivers = keywords.flag("delivers")?.unwrap_or(false);
        // Only functions that are written in Rust can take objects of a framework other than their own.
        let input = if delivers { usual_input } else { execution };
        let (conversion, scaling, range) = keywords.policy()?;
        // With a gradient or without one, results have one framework and one dtype.
        let differentiable = keywords.flag("differentiable")?.unwrap_or(false);
        let native = differentiable.then_some(Conversion::NativeOutput);
        Ok(Options {
            execution,
            input,
            usual_input,
            output: match keywords.output_type()? {
                None if differentiable => OutputType::Input,
                output => output.unwrap_or(OutputType::Fixed(input)),
            },
            input_dtype: keywords.get("input_dtype")?.map(|d| names::dtype(&d)).transpose()?,
            arrays: keywords.read("arrays")?,
            lead: keywords.read("lead")?,
            writes: keywords.read("writes")?,
            sliced: keywords.read("sliced")?.unwrap_or_default(),
            device: keywords.device(input)?,
            copy: keywords.flag("copy")?,
            conversion: conversion.or(native),
            scaling,
            range,
            narrow: keywords.get("narrow")?.map(|name| policy::narrow_named(&name)).transpose()?,
            ladder: keywords.ladder()?,
            split_axis: keywords.read("split_axis")?,
            join: keywords.get("join")?.map(|join| Join::read(&join)).transpose()?,
            host: keywords.read("host")?,
            // The original package keeps any other object as an attribute.
            contract: keywords.get("contract")?.filter(|c| c.is_callable()).map(Bound::unbind),
            differentiable,
            slice_by_slice: keywords.slice_by_slice()?,
            slice_axes: keywords.read("slice_axes")?,
            tiles: Tiles::read(keywords.read("tiles")?, keywords.read("pad")?),
            writable: keywords.writable()?,
            keep: Keep::read(keywords.get("keep")?.as_ref())?,
            opened: keywords.read("opened")?.unwrap_or_default(),
            written: keywords.read("written")?.unwrap_or_default(),
            delivers,
            shown: keywords.read("shown")?,
        })
    }

    /// Returns whether the declaration names parameters, so that the function needs a signature.
    pub fn names_parameters(&self) -> bool {
        self.arrays.is_some()
            || self.lead.is_some()
            || !(self.writes_to().is_empty() && self.sliced.is_empty() && self.opened.is_empty())
    }

    /// Returns whether calls are made part by part, unless they say otherwise.
    pub fn is_cut(&self) -> bool {
        self.tiles.is_some() || self.slice_by_slice
    }

    /// The parameters whose arrays the function is declared to write to.
    #[inline]
    pub fn writes_to(&self) -> &[String] {
        self.writes.as_deref().unwrap_or_default()
    }

    /// Returns whether writes to the caller's arrays matter for a retry, and may happen.
    #[inline]
    pub fn counts_writes(&self) -> bool {
        self.retries() && self.writes.as_ref().is_none_or(|writes| !writes.is_empty())
    }

    /// Returns whether arrays of the declared framework are passed on wherever they are.
    #[inline]
    pub fn accepts_own_arrays(&self) -> bool {
        self.device == Placement::Auto && self.input_dtype.is_none() && self.copy != Some(true)
    }

    /// Returns whether a result is put into an object like the one that the lead was in.
    #[inline]
    pub fn rewraps(&self) -> bool {
        matches!(self.output, OutputType::Input) && self.keep != Keep::Never
    }

    /// Returns whether the function may be given an object with an array inside where it opens the array itself, and
    /// its result has to be put into one like it.
    #[inline]
    pub fn rewraps_opened(&self) -> bool {
        self.delivers && self.rewraps()
    }

    /// Returns whether a result may be given to an object with a unit.
    pub fn keeps_units(&self) -> bool {
        matches!(self.keep, Keep::Always | Keep::Strict)
    }

    /// Returns whether results are of the framework of the first array argument.
    pub fn gives_input(&self) -> bool {
        matches!(self.output, OutputType::Input)
    }

    /// Returns whether a call is retried when memory runs out.
    #[inline]
    pub fn retries(&self) -> bool {
        !self.ladder.is_empty()
    }

    /// The policy for results: what the declaration leaves open is taken from the context.
    #[inline]
    pub fn policy(&self, py: Python<'_>) -> Policy {
        match (self.conversion, self.scaling) {
            (Some(conversion), Some(scaling)) => {
                Policy { conversion, scaling, range: self.range, ..Policy::default() }
            }
            (conversion, scaling) => {
                let base = Policy::default_of_context(py);
                Policy {
                    conversion: conversion.unwrap_or(base.conversion),
                    scaling: scaling.unwrap_or(base.scaling),
                    range: if scaling.is_some() { self.range } else { base.range },
                    narrow: base.narrow,
                }
            }
        }
    }
}

/// The options of a declaration that are not None, as `arraybridge._declared.options` returns them.
struct CheckedKeywords<'py>(Bound<'py, PyDict>);

impl<'py> CheckedKeywords<'py> {
    fn get(&self, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.0.get_item(name)
    }

    /// An option whose type was checked.
    fn read<T: FromPyObjectOwned<'py>>(&self, name: &str) -> PyResult<Option<T>> {
        self.get(name)?.map(|value| value.extract().map_err(Into::into)).transpose()
    }

    fn flag(&self, name: &str) -> Result<Option<bool>> {
        self.get(name)?.map(|value| flag(name, &value)).transpose()
    }

    fn framework(&self, name: &str) -> Result<Option<&'static Framework>> {
        self.get(name)?.map(|value| names::framework(&value)).transpose()
    }

    fn output_type(&self) -> Result<Option<OutputType>> {
        let Some(name) = self.get("output_type")? else { return Ok(None) };
        if name.cast::<PyString>().is_ok_and(|name| name == "input") {
            return Ok(Some(OutputType::Input));
        }
        Ok(Some(OutputType::Fixed(names::framework(&name)?)))
    }

    fn device(&self, framework: &'static Framework) -> Result<Placement> {
        match (self.get("device")?, self.get("gpu_id")?) {
            (Some(device), _) => Placement::from_device(&device, framework),
            (None, Some(index)) => Placement::from_gpu_id(&index, framework),
            (None, None) => Ok(Placement::Auto),
        }
    }

    fn policy(&self) -> Result<(Option<Conversion>, Option<Scaling>, Option<Range>)> {
        let (conversion, scaling) = (self.get("dtype_conversion")?, self.get("scaling")?);
        let policy = Policy::from_py(conversion.as_ref(), scaling.as_ref(), Policy::default())?;
        let is_chosen = scaling.is_some() || policy.scaling != Policy::default().scaling;
        let scaling = is_chosen.then_some(policy.scaling);
        let range = self.get("range")?.map(|range| policy::range_named(&range, scaling));
        Ok((conversion.map(|_| policy.conversion), scaling, range.transpose()?))
    }

    fn slice_by_slice(&self) -> Result<bool> {
        let (own, theirs) = (self.flag("slice_by_slice")?, self.flag("slice_by_slice_default")?);
        Ok(own.or(theirs).unwrap_or(false))
    }

    fn ladder(&self) -> Result<Vec<Rung>> {
        let names: Option<Vec<String>> = self.read("on_oom")?;
        let rungs = match names {
            Some(names) => names.iter().filter_map(|name| Rung::named(name)).collect(),
            None => Rung::ALL.to_vec(),
        };
        let retries = self.flag("oom_recovery")?.unwrap_or(true);
        let mut rungs = if retries { rungs } else { Vec::new() };
        // The original package's name for the first rung.
        let clears = self.flag("clear_cuda_cache")?.unwrap_or(false);
        if clears && !rungs.contains(&Rung::Clear) {
            rungs.insert(0, Rung::Clear);
        }
        Ok(rungs)
    }

    fn writable(&self) -> Result<bool> {
        let writable = self.flag("writable")?.unwrap_or(false);
        if writable && self.flag("copy")? == Some(false) {
            let text =
                "writable=True copies the results of immutable arrays, which copy=False forbids";
            return Err(Error::Value(text.to_owned()));
        }
        Ok(writable)
    }
}
