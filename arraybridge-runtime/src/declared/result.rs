//! The result of a declared function: its element type and its framework.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyList};

use super::arguments::{plain_tuple, rebuilt};
use super::{Call, Options, Output};
use crate::convert::{self, Request};
use crate::detect::{self, Class};
use crate::error::Result;
use crate::policy::{self, Conversion, Lead, Policy};
use crate::spec::{Framework, Kind};
use crate::{live, ndarray, record};

/// Applies the policy to the first array of a result, and converts each to the declared output.
#[inline]
pub fn finish<'py>(call: &Call<'_, 'py>, result: Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
    if let Some(class) = detect::class_of(&result) {
        return array(call, result, class, true);
    }
    if !result.is_exact_instance_of::<PyList>() && plain_tuple(&result).is_none() {
        return Ok(result);
    }
    let (mut first, mut changed) = (true, false);
    let mut elements = Vec::new();
    for element in result.try_iter()? {
        let element = element?;
        let Some(class) = detect::class_of(&element) else {
            elements.push(element);
            continue;
        };
        let made = array(call, element.clone(), class, first)?;
        first = false;
        changed |= !made.is(&element);
        elements.push(made);
    }
    if changed { Ok(rebuilt(&result, elements)?) } else { Ok(result) }
}

#[inline]
fn array<'py>(
    call: &Call<'_, 'py>,
    mut array: Bound<'py, PyAny>,
    mut class: Class,
    first: bool,
) -> Result<Bound<'py, PyAny>> {
    let lead_array = call.slots.first().map(|slot| &slot.value);
    if first && !fits(call.policy, lead_array, &array, class) {
        let (lead, name) = (lead(call), &call.core.name);
        array = match policy::finish(&array, &lead, call.policy, name) {
            // The framework of the function may lack the dtype that the output has.
            Err(error) if error.is_missing_dtype() => match call.output() {
                Some(output) if output.memory_type != class.framework.memory_type => {
                    let there = deliver(call, &array, class, output)?;
                    policy::finish(&there, &lead, call.policy, name)?
                }
                _ => return Err(error),
            },
            done => done?,
        };
        class = detect::class_of(&array).unwrap_or(class);
    }
    match call.output() {
        Some(output) if output.memory_type != class.framework.memory_type => {
            deliver(call, &array, class, output)
        }
        _ => Ok(array),
    }
}

/// Converts an array of a result to the output.
fn deliver<'py>(
    call: &Call<'_, 'py>,
    array: &Bound<'py, PyAny>,
    class: Class,
    output: &'static Framework,
) -> Result<Bound<'py, PyAny>> {
    let copy = match record::copy_default(call.py, call.core.options.copy) {
        // What the function gave is not shared with an array that can be written to.
        None if class.framework.immutable && !is_flagged(output) => Some(true),
        Some(false) => Some(false).filter(|_| class.framework.immutable),
        copy => copy,
    };
    convert::convert_to(array, output, &Request { copy, ..Request::default() })
}

/// Whether a framework's arrays cannot be written to where their memory must not be.
fn is_flagged(framework: &Framework) -> bool {
    framework.immutable || framework.import.as_ref().is_some_and(|import| import.flag)
}

/// Whether an array has the element type that the policy asks for, as far as a glance tells.
#[inline]
fn fits<'py>(
    policy: Policy,
    lead: Option<&Bound<'py, PyAny>>,
    array: &Bound<'py, PyAny>,
    class: Class,
) -> bool {
    match policy.conversion {
        Conversion::NativeOutput => true,
        Conversion::Force(_) => false,
        Conversion::PreserveInput => {
            let Some(lead) = lead else { return true };
            if array.is(lead) {
                return true;
            }
            if ndarray::is_array(array) && ndarray::is_array(lead) {
                let dtype = ndarray::dtype_of(array);
                return dtype.is_some() && dtype == ndarray::dtype_of(lead);
            }
            let of = |class: Class| class.framework.memory_type;
            if detect::class_of(lead).is_none_or(|lead| of(lead) != of(class)) {
                return false;
            }
            let dtype = |array: &Bound<'py, PyAny>| array.getattr(intern!(array.py(), "dtype"));
            match (dtype(array), dtype(lead)) {
                (Ok(this), Ok(that)) => this.is(&that),
                _ => false,
            }
        }
    }
}

/// Whether a result can be handed out as it is.
#[inline]
pub fn is_done<'py>(
    options: &Options,
    policy: Policy,
    lead: Option<&Bound<'py, PyAny>>,
    result: &Bound<'py, PyAny>,
) -> bool {
    // A function that delivers was told where to.
    let delivered = |class: Class| match options.output {
        Output::Fixed(output) => output.memory_type == class.framework.memory_type,
        Output::Input => options.delivers,
    };
    match detect::class_of(result) {
        Some(class) => delivered(class) && fits(policy, lead, result, class),
        None => !result.is_exact_instance_of::<PyList>() && plain_tuple(result).is_none(),
    }
}

fn lead(call: &Call<'_, '_>) -> Lead {
    let Some(lead) = call.slots.first() else {
        return Lead { dtype: None, ndim: 0, complex: false };
    };
    let (py, framework) = (call.py, lead.class.framework);
    let dtype = match ndarray::is_array(&lead.value) {
        true => ndarray::dtype_of(&lead.value),
        false => lead.value.getattr(intern!(py, "dtype")).ok().and_then(|dtype| {
            live::live(py, framework, live::ends_of(framework)).ok()?.dtype_of(py, &dtype)
        }),
    };
    let shape = lead.value.getattr(intern!(py, "shape"));
    // A traced shape can be of unknown length.
    let ndim = shape.and_then(|shape| shape.len()).unwrap_or(0);
    Lead { dtype, ndim, complex: dtype.is_some_and(|dtype| dtype.kind() == Kind::Complex) }
}

/// Waits for the arrays of a result, where their framework returns before they are computed.
pub fn wait(framework: &'static Framework, result: &Bound<'_, PyAny>) -> PyResult<()> {
    let Some(ready) = framework.ready else { return Ok(()) };
    // What an iterator gives is not there yet.
    if result.cast::<PyIterator>().is_ok() {
        return Ok(());
    }
    let py = result.py();
    let live = live::live(py, framework, live::ends_of(framework)).map_err(PyErr::from)?;
    ready.call(py, [live.module(py), result]).map(drop)
}
