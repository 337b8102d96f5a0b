//! What a declaration says beside the function.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString};

use super::names;
use crate::declared::ladder::Rung;
use crate::framework::device::Placement;
use crate::framework::endpoints::Endpoints;
use crate::framework::spec::{DType, Framework};
use crate::host::cast::Scaling;
use crate::interpreter::error::{Error, Result};
use crate::policy::{Conversion, Policy};

/// Where results go.
#[derive(Clone, Copy, Debug)]
pub enum Output {
    /// To this framework.
    Fixed(&'static Framework),
    /// To that of the lead.
    Input,
}

/// A declaration, read and checked.
#[derive(Debug)]
pub struct Options {
    /// What the function works on, whose device, streams and allocator it uses.
    pub execution: &'static Framework,
    /// What its array arguments are converted to.
    pub input: &'static Framework,
    /// What its results are converted to.
    pub output: Output,
    /// The element type that arguments are cast to.
    pub input_dtype: Option<DType>,
    /// The parameters whose arrays are converted; all of them without it.
    pub arrays: Option<Vec<String>>,
    /// The parameters that are sliced and split together with the lead.
    pub sliced: Vec<String>,
    /// Where the arguments go.
    pub device: Placement,
    /// Whether arguments are copied, as in `convert`.
    pub copy: Option<bool>,
    /// The element type of results, where the declaration says it.
    pub conversion: Option<Conversion>,
    /// How floating point results become integers, where the declaration says it.
    pub scaling: Option<Scaling>,
    /// The rungs of the ladder out of an exhausted memory, in order.
    pub ladder: Vec<Rung>,
    /// The axis of the lead that the function lets us split.
    pub split_axis: Option<usize>,
    /// The function that takes over on the host.
    pub host: Option<Py<PyAny>>,
    /// A test of the result.
    pub contract: Option<Py<PyAny>>,
    /// Whether calls are made slice by slice unless they say otherwise.
    pub slice_by_slice: bool,
    /// The parameters whose arrays the function opens itself, of any framework.
    pub opened: Vec<String>,
    /// Those among them that it writes to.
    pub written: Vec<String>,
    /// Whether the function gives arrays of the output's framework itself.
    pub delivers: bool,
}

const KNOWN: [&str; 15] = [
    "input_type",
    "output_type",
    "input_dtype",
    "arrays",
    "sliced",
    "device",
    "copy",
    "dtype_conversion",
    "scaling",
    "oom_recovery",
    "on_oom",
    "split_axis",
    "host",
    "contract",
    "slice_by_slice",
];

/// What only this crate says: the framework, where it is not the decorator's, and how far a function
/// written in Rust sees to its arrays itself.
const OWN: [&str; 4] = ["execution_type", "opened", "written", "delivers"];

impl Options {
    /// Reads the keyword arguments of a decorator.
    ///
    /// # Errors
    ///
    /// [`Error::Type`] for an unknown option or a value of a wrong type, [`Error::Value`] for a
    /// value that is none of those allowed.
    pub fn read(execution: &'static Framework, given: &Bound<'_, PyDict>) -> Result<Options> {
        for (key, _) in given {
            let key = key.to_string();
            if !KNOWN.contains(&key.as_str()) && !OWN.contains(&key.as_str()) {
                let known = KNOWN.join(", ");
                return Err(Error::Type(format!("unknown option {key:?}; known are {known}")));
            }
        }
        let get = |name: &str| -> Result<Option<Bound<'_, PyAny>>> {
            Ok(given.get_item(name)?.filter(|value| !value.is_none()))
        };
        let execution = match get("execution_type")? {
            Some(name) => names::framework(&name)?,
            None => execution,
        };
        let input = get("input_type")?.map_or(Ok(execution), |name| names::framework(&name))?;
        let output = match get("output_type")? {
            Some(name) if name.cast::<PyString>().is_ok_and(|name| name == "input") => {
                Output::Input
            }
            Some(name) => Output::Fixed(names::framework(&name)?),
            None => Output::Fixed(input),
        };
        let device = match get("device")? {
            Some(device) => {
                Placement::from_device(&device, Endpoints { source: input, target: input })?
            }
            None => Placement::Auto,
        };
        let (conversion, scaling) = (get("dtype_conversion")?, get("scaling")?);
        let base = Policy { conversion: Conversion::PreserveInput, scaling: Scaling::Clamp };
        let policy = Policy::from_py(conversion.as_ref(), scaling.as_ref(), base)?;
        let callable = |name: &str| -> Result<Option<Py<PyAny>>> {
            let value = get(name)?;
            if let Some(value) = value.as_ref().filter(|value| !value.is_callable()) {
                let class = value.get_type().name()?;
                return Err(Error::Type(format!("{name} must be a function, not {class}")));
            }
            Ok(value.map(Bound::unbind))
        };
        let is = |name: &str, default: bool| -> Result<bool> {
            get(name)?.map_or(Ok(default), |value| flag(name, &value))
        };
        let named = |name: &str| -> Result<Vec<String>> {
            get(name)?.map_or(Ok(Vec::new()), |names| parameters(name, &names))
        };
        let ladder = match get("on_oom")? {
            Some(rungs) => Rung::read(&rungs)?,
            None => Rung::ALL.to_vec(),
        };
        let ladder = if is("oom_recovery", true)? { ladder } else { Vec::new() };
        let split_axis = get("split_axis")?.map(|axis| {
            let number = axis.extract::<usize>().ok().filter(|_| !axis.is_instance_of::<PyBool>());
            number.ok_or_else(|| {
                Error::Value(format!("split_axis must be 0 or a larger int, not {axis}"))
            })
        });
        Ok(Options {
            execution,
            input,
            output,
            input_dtype: get("input_dtype")?.map(|dtype| names::dtype(&dtype)).transpose()?,
            arrays: get("arrays")?.map(|names| parameters("arrays", &names)).transpose()?,
            sliced: named("sliced")?,
            device,
            copy: get("copy")?.map(|value| flag("copy", &value)).transpose()?,
            conversion: conversion.map(|_| policy.conversion),
            scaling: scaling.map(|_| policy.scaling),
            ladder,
            split_axis: split_axis.transpose()?,
            host: callable("host")?,
            // An object that is no function is kept as an attribute, as upstream does.
            contract: get("contract")?.filter(|c| c.is_callable()).map(|c| c.clone().unbind()),
            slice_by_slice: is("slice_by_slice", false)?,
            opened: named("opened")?,
            written: named("written")?,
            delivers: is("delivers", false)?,
        })
    }

    /// Whether the declaration says something of single parameters.
    pub(super) fn names_parameters(&self) -> bool {
        self.arrays.is_some() || !(self.sliced.is_empty() && self.opened.is_empty())
    }

    /// The policy for results, by the declaration and by the context.
    #[inline]
    pub fn policy(&self, py: Python<'_>) -> Policy {
        match (self.conversion, self.scaling) {
            (Some(conversion), Some(scaling)) => Policy { conversion, scaling },
            (conversion, scaling) => {
                let base = Policy::default_of_context(py);
                Policy {
                    conversion: conversion.unwrap_or(base.conversion),
                    scaling: scaling.unwrap_or(base.scaling),
                }
            }
        }
    }
}

/// True or False, Python's or NumPy's.
pub(super) fn flag(name: &str, value: &Bound<'_, PyAny>) -> Result<bool> {
    match value.extract() {
        Ok(value) => Ok(value),
        Err(_) => Err(Error::Type(format!(
            "{name} must be True or False, not {}",
            value.get_type().name()?
        ))),
    }
}

/// One name or several.
fn parameters(option: &str, names: &Bound<'_, PyAny>) -> Result<Vec<String>> {
    if let Ok(name) = names.cast::<PyString>() {
        return Ok(vec![name.to_string()]);
    }
    names.extract().map_err(|_| {
        Error::Type(format!("{option} must be a parameter's name or a sequence of them"))
    })
}
