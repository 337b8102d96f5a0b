//! The result of a declared function: its element type and its framework.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyList};

use super::{Call, Options, Output};
use crate::convert::trace;
use crate::convert::{self, Request};
use crate::framework::detect::{self, Class};
use crate::framework::endpoints::Endpoints;
use crate::framework::loaded;
use crate::framework::spec::Framework;
use crate::interpreter::error::Result;
use crate::interpreter::tuples::{plain_tuple, rebuilt};
use crate::memory::numpy_array;
use crate::policy::{self, Conversion, Lead, Policy};

/// What a result is the result of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// A call.
    Whole,
    /// A call for one slice. What will be stacked is finished as a stack.
    Slice,
    /// The calls for all slices.
    Stack,
}

/// Applies the policy to the first array of a result, and converts each to the declared output.
#[inline]
pub fn finish<'py>(
    call: &Call<'_, 'py>,
    result: Bound<'py, PyAny>,
    of: Of,
) -> Result<Bound<'py, PyAny>> {
    if let Some(class) = detect::class_of(&result) {
        return if of == Of::Slice { Ok(result) } else { array(call, result, class, true, of) };
    }
    let tuple = plain_tuple(&result).is_some();
    if !tuple && !result.is_exact_instance_of::<PyList>() {
        return Ok(result);
    }
    let (mut first, mut changed) = (true, false);
    let mut elements = Vec::new();
    for element in result.try_iter()? {
        let element = element?;
        let stacked = of == Of::Slice && tuple && elements.is_empty();
        let Some(class) = detect::class_of(&element) else {
            elements.push(element);
            continue;
        };
        let made = match stacked {
            true => element.clone(),
            false => array(call, element.clone(), class, first, of)?,
        };
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
    of: Of,
) -> Result<Bound<'py, PyAny>> {
    let lead_array = call.slots.first().map(|slot| &slot.value);
    if first && !fits(call.policy, lead_array, &array, class) {
        let mut lead = lead_array.map_or_else(Lead::default, Lead::of);
        if of == Of::Stack {
            lead.reduced_ndim = Some(1);
        }
        let name = &call.core.name;
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
    let copy = match trace::copy_default(call.py, call.core.options.copy) {
        Some(false) => Some(false).filter(|_| class.framework.immutable),
        copy => copy,
    };
    // What the function gave is not shared with an array that can be written to.
    let apart = class.framework.immutable && !is_flagged(output);
    convert::convert_to(array, output, &Request { copy, apart, ..Request::default() })
}

/// Whether a framework's arrays cannot be written to where their memory must not be.
fn is_flagged(framework: &Framework) -> bool {
    framework.immutable || framework.import.as_ref().is_some_and(|import| import.read_only)
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
            if let (Some(array), Some(lead)) = (numpy_array::array(array), numpy_array::array(lead))
            {
                let dtype = numpy_array::dtype_of(array);
                return dtype.is_some() && dtype == numpy_array::dtype_of(lead);
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

/// Waits for the arrays of a result, where their framework returns before they are computed.
pub fn wait(framework: &'static Framework, result: &Bound<'_, PyAny>) -> PyResult<()> {
    let Some(ready) = framework.ready else { return Ok(()) };
    // What an iterator gives is not there yet.
    if result.cast::<PyIterator>().is_ok() {
        return Ok(());
    }
    let py = result.py();
    let loaded = loaded::load(py, framework, Endpoints::of(framework)).map_err(PyErr::from)?;
    ready.call(py, [loaded.module(py), result]).map(drop)
}
