//! The result of a declared function: its dtype and its framework.

use arraybridge_runtime::intern;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::call::Call;
use super::options::{Options, OutputType};
use super::{arguments, ready, scope};
use crate::policy::{self, Conversion, Lead, Policy, StackPolicy};
use arraybridge_runtime::convert::trace;
use arraybridge_runtime::convert::{self, Request};
use arraybridge_runtime::framework::detect::{self, Class, Role};
use arraybridge_runtime::framework::device::{Device, Placement};
use arraybridge_runtime::framework::generated::MemoryType;
use arraybridge_runtime::framework::shape;
use arraybridge_runtime::framework::spec::{Framework, Memory};
use arraybridge_runtime::framework::{loaded, oom};
use arraybridge_runtime::interpreter::containers::Container;
use arraybridge_runtime::interpreter::error::{Error, Result};
use arraybridge_runtime::memory::numpy_array;

/// The origin of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultScope {
    /// A call with the whole arrays.
    Call,
    /// A call for one slice. The arrays that will be stacked are finished with the stack.
    Slice,
    /// The calls for all slices, whose results were stacked.
    Stack,
}

impl<'py> Call<'_, 'py> {
    /// Gives a result its dtype and its framework, takes a last step, and tests the contract.
    ///
    /// # Errors
    ///
    /// The errors of [`finish`], and what the step returns; any exception that the contract raises; `ValueError` when
    /// the result violates it.
    #[inline]
    pub fn finish(
        &self,
        mut result: Bound<'py, PyAny>,
        scope: ResultScope,
        step: impl FnOnce(Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let sink = self.sink.as_ref();
        // Tiles and slices were written as they came.
        let is_whole = scope == ResultScope::Call && self.definition.options.tiles.is_none();
        if let Some(sink) = sink.filter(|_| is_whole) {
            result = sink.take(result, |array| sink.write_whole(array))?;
        }
        let result = finish(self, result, scope)
            .and_then(step)
            .map_err(|error| error.in_place(&self.definition.name, "the result"))?;
        let result = match sink {
            Some(sink) => sink.settle(result)?,
            None => result,
        };
        // The policy may have cast it.
        let result = ready::compute(self.definition.options.execution, result)?;
        let Some(contract) = &self.definition.options.contract else { return Ok(result) };
        let answer = contract.bind(self.py).call1((&result,))?;
        // A contract that asserts returns None.
        if !answer.is_none() && !answer.is_truthy()? {
            let text = format!("{} violated its output contract", self.definition.name);
            return Err(PyValueError::new_err(text));
        }
        Ok(result)
    }
}

/// Applies the policy to the first array of a result, and converts each array to the declared output.
#[inline]
pub fn finish<'py>(
    call: &Call<'_, 'py>,
    result: Bound<'py, PyAny>,
    scope: ResultScope,
) -> Result<Bound<'py, PyAny>> {
    let mut finisher = Finisher { call, scope, is_first: true };
    if let Some(class) = detect::class_of(&result) {
        return match scope {
            // What will be stacked is where the other slices are.
            ResultScope::Slice => put_back(call, result, class.framework),
            _ => finisher.array(result, class, true),
        };
    }
    let finished = match Container::of(&result) {
        Some(container) => finisher.items(&container, 0)?,
        None => finisher.scalar(&result)?,
    };
    Ok(finished.unwrap_or(result))
}

/// Finishes the arrays of a result, one after the other.
struct Finisher<'a, 'b, 'py> {
    call: &'a Call<'b, 'py>,
    scope: ResultScope,
    /// True until the first array of a container has come.
    is_first: bool,
}

impl<'py> Finisher<'_, '_, 'py> {
    /// Finishes the arrays of a container, and those of the lists, tuples and dicts in it; `None` if that changes
    /// nothing. Dataclasses in a container are left alone: objects that refer to each other have no end.
    fn items(
        &mut self,
        container: &Container<'_, 'py>,
        depth: usize,
    ) -> Result<Option<Bound<'py, PyAny>>> {
        const DEEPEST: usize = 64;
        if depth == DEEPEST {
            let text = format!(
                "the result of {} is nested more than {DEEPEST} levels deep, or contains itself",
                self.call.definition.name
            );
            return Err(Error::Type(text));
        }
        let mut changed = false;
        let mut items = container.items()?;
        for (index, item) in items.iter_mut().enumerate() {
            let is_element = self.scope == ResultScope::Slice && depth == 0 && container.is_tuple();
            let finished = match detect::class_of(item) {
                Some(class) => {
                    let is_first = std::mem::take(&mut self.is_first);
                    // What will be stacked gets the policy of the stack.
                    if is_element && (index == 0 || is_first && is_image_of_slice(self.call, item))
                    {
                        continue;
                    }
                    Some(self.array(item.clone(), class, is_first)?)
                }
                None => match Container::of(item) {
                    Some(inner) if inner.is_instance() => None,
                    Some(inner) => self.items(&inner, depth + 1)?,
                    None => self.scalar(item)?,
                },
            };
            if let Some(finished) = finished.filter(|finished| !finished.is(&*item)) {
                *item = finished;
                changed = true;
            }
        }
        if changed { Ok(Some(container.with(items)?)) } else { Ok(None) }
    }

    /// Converts a scalar of NumPy, which is what its reductions return, to an array of another framework that the
    /// declaration names; `None` if it stays. A slice's scalar waits for those of the other slices.
    #[inline]
    fn scalar(&self, result: &Bound<'py, PyAny>) -> Result<Option<Bound<'py, PyAny>>> {
        let Finisher { call, scope, .. } = *self;
        let options = &call.definition.options;
        let OutputType::Fixed(output) = options.output else { return Ok(None) };
        let stays = [options.execution.memory_type, MemoryType::Numpy].contains(&output.memory_type)
            // It has no arrays without axes.
            || output.ndim.0 > 0
            || scope == ResultScope::Slice;
        let array = if stays { None } else { convert::scalar_as_array(result) };
        match array.as_ref().and_then(|array| Some((array, detect::class_of(array)?))) {
            Some((array, class)) => convert_to_output(call, array, class, output).map(Some),
            None => Ok(None),
        }
    }

    /// Finishes one array of a result. Only the first one gets the policy's dtype.
    #[inline]
    fn array(
        &self,
        mut array: Bound<'py, PyAny>,
        mut class: Class,
        is_first: bool,
    ) -> Result<Bound<'py, PyAny>> {
        let Finisher { call, scope, .. } = *self;
        let lead_array = call.slots.first().map(|slot| &slot.value);
        if is_first && goes_to_host(call, &array, class)? {
            // What is cast there is counted, and the caller waits in any case.
            let output = MemoryType::Numpy.framework();
            array = convert_to_output(call, &array, class, output)?;
            class = detect::class_of(&array).unwrap_or(class);
        }
        if is_first
            && !has_wanted_dtype(call.policy, lead_array, &array, class)
            && !stays_as_it_is(call.policy, &array)?
        {
            let lead = lead_of(call, scope);
            array = match policy::finish(&array, &lead, call.policy, &call.definition.name) {
                Err(error) if error.is_missing_dtype() => {
                    finish_without_dtype(call, &array, lead, error)?
                }
                finished => finished?,
            };
            class = detect::class_of(&array).unwrap_or(class);
        }
        match call.output() {
            Some(output) if !output.is(class.framework) => {
                convert_to_output(call, &array, class, output)
            }
            _ => put_back(call, array, class.framework),
        }
    }
}

/// Returns whether an array has the shape of a slice of the lead.
fn is_image_of_slice(call: &Call<'_, '_>, array: &Bound<'_, PyAny>) -> bool {
    let lead = call.slots.first().and_then(|slot| shape::of(&slot.value));
    lead.is_some_and(|lead| {
        shape::of(array).is_some_and(|shape| shape[..] == lead[call.leading.min(lead.len())..])
    })
}

/// Returns whether an array on an accelerator that the policy may cast becomes one of NumPy. One that is recorded for a
/// gradient, or has no place, is left to its framework.
#[inline]
fn goes_to_host<'py>(
    call: &Call<'_, 'py>,
    array: &Bound<'py, PyAny>,
    class: Class,
) -> Result<bool> {
    let framework = class.framework;
    if framework.memory == Memory::Host
        || call.policy.conversion == Conversion::NativeOutput
        || !matches!(class.role, Role::Array)
        || call.output().is_none_or(|output| output.memory != Memory::Host)
    {
        return Ok(false);
    }
    let loaded = loaded::load(call.py, framework)?;
    let is_known = || {
        loaded.dtype(array).is_some_and(|from| MemoryType::Numpy.framework().dtypes.contains(from))
    };
    if loaded.accelerators() == 0 || loaded.is_tracing() || loaded.records(array) || !is_known() {
        return Ok(false);
    }
    Ok(matches!(loaded.device_of(array), Ok(Device::Accelerator(_))))
}

/// Where an array of a framework belongs that was computed on the host because memory ran out: on the device of the
/// call, as any other result.
#[inline]
fn place<'py>(call: &Call<'_, 'py>, framework: &'static Framework) -> Result<Placement> {
    if !call.fell_back.get() || framework.memory == Memory::Host {
        return Ok(Placement::Auto);
    }
    let options = &call.definition.options;
    let device = scope::call_device(&call.slots, options)?;
    Ok(match device {
        Some(device @ Device::Accelerator(index))
            if index < loaded::load(call.py, framework)?.accelerators() =>
        {
            Placement::On(device)
        }
        _ => Placement::Auto,
    })
}

/// Puts an array that was computed on the host because memory ran out on the device of the call. If there is no room,
/// a framework that has arrays on the host keeps it there.
#[inline]
fn put_back<'py>(
    call: &Call<'_, 'py>,
    array: Bound<'py, PyAny>,
    framework: &'static Framework,
) -> Result<Bound<'py, PyAny>> {
    let placement = place(call, framework)?;
    if placement == Placement::Auto {
        return Ok(array);
    }
    let request = Request { placement, ..Request::default() };
    match convert::convert_to(&array, framework, &request) {
        Err(Error::Python(error))
            if framework.memory == Memory::Either
                && oom::framework_of(call.py, &error, None).is_some() =>
        {
            Ok(array)
        }
        done => done,
    }
}

/// Returns whether a result is an array of a subclass of NumPy's that has a mask or a unit, which a
/// cast would lose. Only a dtype that was asked for is an error then.
#[inline]
fn stays_as_it_is(policy: Policy, array: &Bound<'_, PyAny>) -> Result<bool> {
    Ok(numpy_array::is_array(array)
        && !numpy_array::is_plain_array(array)
        && !matches!(policy.conversion, Conversion::Force(_))
        && convert::meaning(array)?.is_some())
}

/// Applies the policy to an array whose framework lacks the policy's dtype. The output framework may have
/// it; else the array gets the nearest dtype, as an argument would.
#[cold]
fn finish_without_dtype<'py>(
    call: &Call<'_, 'py>,
    array: &Bound<'py, PyAny>,
    mut lead: Lead<'_, 'py>,
    mut error: Error,
) -> Result<Bound<'py, PyAny>> {
    let class = convert::class_of(array)?;
    let (mut array, mut framework) = (array.clone(), class.framework);
    if let Some(output) = call.output().filter(|output| !output.is(framework)) {
        array = convert_to_output(call, &array, class, output)?;
        framework = output;
        match policy::finish(&array, &lead, call.policy, &call.definition.name) {
            Err(next) if next.is_missing_dtype() => error = next,
            finished => return finished,
        }
    }
    let py = call.py;
    let preserves =
        matches!(call.policy.conversion, Conversion::Default | Conversion::PreserveInput);
    let narrowing = call.definition.narrowing(py).filter(|_| preserves);
    let (Some(narrowing), Some(from)) = (narrowing, lead.dtype) else { return Err(error) };
    let Some(to) = convert::narrowed(py, from, framework)? else { return Err(error) };
    lead.dtype = Some(to);
    let finished = policy::finish(&array, &lead, call.policy, &call.definition.name)?;
    narrowing.warn(loaded::load(py, framework)?, from, to)?;
    Ok(finished)
}

/// The policy for results that are put together: the slices of a stack, or the tiles of a call.
pub fn joined_policy<'a, 'py>(call: &'a Call<'_, 'py>, scope: ResultScope) -> StackPolicy<'a, 'py> {
    let lead = lead_of(call, scope);
    // The stack has one axis of slices until all are there.
    let lead = Lead { stacked: (lead.stacked.0.min(1), lead.stacked.1), ..lead };
    StackPolicy::new(call.policy, lead, &call.definition.name)
}

/// The lead of a call.
fn lead_of<'a, 'py>(call: &'a Call<'_, 'py>, scope: ResultScope) -> Lead<'a, 'py> {
    let Some(slot) = call.slots.first() else { return Lead::default() };
    let received_by = Some(call.definition.options.input);
    let leading = if scope == ResultScope::Stack { call.leading } else { 0 };
    let is_stand_in = slot.lazy().is_some();
    Lead { received_by, stacked: (leading, leading), is_stand_in, ..Lead::of(&slot.value) }
}

/// Converts an array of a result to the output framework.
fn convert_to_output<'py>(
    call: &Call<'_, 'py>,
    array: &Bound<'py, PyAny>,
    class: Class,
    output: &'static Framework,
) -> Result<Bound<'py, PyAny>> {
    let copy = match trace::copy_default(call.py, call.definition.options.copy) {
        Some(false) => Some(false).filter(|_| class.framework.immutable),
        copy => copy,
    };
    // Memory of an immutable array is not shared with an array that can be written to.
    let is_asked_for = call.definition.options.writable && !output.immutable;
    let for_writing = class.framework.immutable && (is_asked_for || output.can_be_written());
    let copy = if for_writing && is_asked_for { Some(true) } else { copy };
    let placement = match place(call, output)? {
        // A result of the lead's framework goes to where the lead is.
        Placement::Auto if output.memory != Memory::Host => {
            arguments::host_of_lead(loaded::load(call.py, output)?, &call.slots)?
        }
        placement => placement,
    };
    let request = Request { placement, copy, for_writing, ..Request::default() };
    let narrowing = || call.definition.narrowing(call.py);
    Ok(convert::convert_narrowed(array, output, &request, narrowing)?.0)
}

/// Returns whether an array has the dtype that the policy asks for. A cheap test: false if that is
/// not obvious.
#[inline]
fn has_wanted_dtype<'py>(
    policy: Policy,
    lead: Option<&Bound<'py, PyAny>>,
    array: &Bound<'py, PyAny>,
    class: Class,
) -> bool {
    match policy.conversion {
        Conversion::NativeOutput => true,
        Conversion::Force(_) => false,
        Conversion::Default | Conversion::PreserveInput => {
            let Some(lead) = lead else { return true };
            if array.is(lead) {
                return true;
            }
            if let (Some(array), Some(lead)) = (numpy_array::array(array), numpy_array::array(lead))
            {
                let dtype = numpy_array::dtype_of(array);
                return dtype.is_some() && dtype == numpy_array::dtype_of(lead);
            }
            if class.framework.dtype_of.is_some() {
                return false;
            }
            if !detect::is_of(lead, class.framework) {
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

/// Returns whether a result can be returned as it is.
#[inline]
pub fn is_finished<'py>(
    options: &Options,
    policy: Policy,
    lead: Option<&Bound<'py, PyAny>>,
    result: &Bound<'py, PyAny>,
) -> bool {
    let is_of_output = |class: Class| match options.output {
        OutputType::Fixed(output) => output.is(class.framework),
        OutputType::Input => options.delivers,
    };
    match detect::class_of(result) {
        Some(class) => is_of_output(class) && has_wanted_dtype(policy, lead, result, class),
        None => Container::of(result).is_none(),
    }
}
