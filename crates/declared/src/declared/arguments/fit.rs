//! Converts the arrays of a call to the declared framework and to one device.

use std::collections::{HashMap, HashSet};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::found::with_unit_way;
use super::rebuild::rebuild;
use super::writes::{self, Writes};
use super::{ArgumentSlot, ArgumentSlots, leaves, names};
use crate::declared::definition::Definition;
use crate::declared::options::Options;
use arraybridge_runtime::convert::plan::Route;
use arraybridge_runtime::convert::{self, Request, trace};
use arraybridge_runtime::framework::detect::Role;
use arraybridge_runtime::framework::device::{self, Device, Placement};
use arraybridge_runtime::framework::endpoints::Endpoints;
use arraybridge_runtime::framework::loaded::{self, Loaded};
use arraybridge_runtime::framework::spec::{DType, Framework, Memory};
use arraybridge_runtime::framework::warnings;
use arraybridge_runtime::framework::writes::count_write;
use arraybridge_runtime::interpreter::containers::Container;
use arraybridge_runtime::interpreter::error::{Result, attempt};
use arraybridge_runtime::memory::cast;
use arraybridge_tensor::cuda::driver;

/// The destination of an attempt's arrays, if it is not the one that the declaration names.
#[derive(Clone, Copy, Debug)]
pub struct Destination {
    /// The framework.
    pub framework: &'static Framework,
    /// The device.
    pub placement: Placement,
}

/// The arguments as the function receives them.
pub struct FittedArguments<'py> {
    /// The arguments by position.
    pub args: Bound<'py, PyTuple>,
    /// The arguments by name.
    pub kwargs: Option<Bound<'py, PyDict>>,
    /// True if the result has to be waited for: the function reads memory that the caller may write
    /// to or free, and its framework returns before the work is done.
    pub must_wait: bool,
    /// The arrays that the function could write to.
    pub writes: Writes,
    /// The place of the call, if there was a choice.
    pub placement: Placement,
}

impl<'py> FittedArguments<'py> {
    /// The value that the function receives for an array of the call.
    pub fn array(&self, slot: &ArgumentSlot<'py>) -> Option<Bound<'py, PyAny>> {
        let argument = slot.key.argument(&self.args, self.kwargs.as_ref())?;
        match slot.element {
            Some(element) => leaves::leaf(&Container::of(&argument)?, element),
            None => Some(argument),
        }
    }
}

/// Converts the arrays of a call to the declared framework and to one device. An array that fits
/// already is not touched.
pub fn fit<'py>(
    definition: &Definition,
    (args, kwargs): (&Bound<'py, PyTuple>, Option<&Bound<'py, PyDict>>),
    slots: &ArgumentSlots<'py>,
    destination: Option<Destination>,
) -> Result<FittedArguments<'py>> {
    let options = &definition.options;
    let target = destination.map_or(options.input, |destination| destination.framework);
    let mut fitted = FittedArguments {
        args: args.clone(),
        kwargs: kwargs.cloned(),
        must_wait: false,
        writes: Writes::of(target),
        placement: Placement::Auto,
    };
    writes::check(definition, target, slots)?;
    let fits = options.accepts_own_arrays()
        && trace::or_always_copy(args.py(), options.copy) != Some(true)
        && destination.is_none()
        && slots.iter().all(|slot| !slot.is_part && (slot.usage.is_opened() || slot.is_of(target)));
    let one_device = slots.len() <= 1 || target.memory == Memory::Host;
    if fits && one_device && target.version.is_none() && target.stream.is_none() {
        return Ok(fitted);
    }
    let Some(first) = slots.first() else { return Ok(fitted) };
    let py = first.value.py();
    // JAX starts its devices when they are counted, and leaves the last one current.
    let _context = target.changes_current().then(driver::keep_current);
    let loaded = loaded::load(py, target)?;
    if fits && loaded.accelerators() == 0 && !loaded.has_several_hosts()? {
        if options.counts_writes() {
            let own = slots.iter().filter(|slot| slot.class.is_array() && slot.is_of(target));
            own.for_each(|slot| fitted.writes.record(&slot.value));
        }
        return Ok(fitted);
    }
    let placement = match destination {
        Some(destination) => destination.placement,
        None => call_placement(loaded, options, slots)?,
    };
    fitted.placement = placement;
    let is_written = |slot: &&ArgumentSlot<'py>| writes::is_declared(definition, &slot.key);
    let written = match options.writes_to().is_empty() {
        true => HashSet::new(),
        false => slots.iter().filter(is_written).map(|slot| slot.value.as_ptr() as usize).collect(),
    };
    let fitter = Fitter { loaded, definition, placement, slots, written };
    // The arrays that are made here have a count of writes then.
    match writes::counting(loaded)? {
        Some(scope) => device::entered(&scope, || Ok(fitter.fit(&mut fitted)?))?,
        None => fitter.fit(&mut fitted)?,
    }
    Ok(fitted)
}

/// Finds arrays that are among the arguments more than once.
#[derive(Default)]
struct Repeated {
    /// The indexes of the arrays by their addresses, where there are many.
    known: HashMap<usize, usize>,
}

impl Repeated {
    /// The number of arrays up to which each is compared with each.
    const FEW: usize = 16;

    /// The index of an earlier slot with the same array for the same use.
    fn first(&mut self, slots: &ArgumentSlots<'_>, index: usize) -> Option<usize> {
        let slot = &slots[index];
        let is_same = |other: &ArgumentSlot<'_>| {
            other.value.is(&slot.value)
                && other.usage == slot.usage
                && other.is_part == slot.is_part
        };
        if slots.len() <= Self::FEW {
            return slots[..index].iter().position(is_same);
        }
        let first = *self.known.entry(slot.value.as_ptr() as usize).or_insert(index);
        (first < index && is_same(&slots[first])).then_some(first)
    }
}

/// The one device of a call: what the declaration says, else where the lead is, else the current one of the
/// declared framework. The lead is the first array that the framework could use where it is. The others follow it.
pub fn call_placement<'py>(
    loaded: Loaded<'py>,
    options: &Options,
    slots: &ArgumentSlots<'py>,
) -> Result<Placement> {
    let py = loaded.py();
    let framework = loaded.framework;
    // Any of the host's devices is the host: the arrays meet on that of the first one. A traced array does not say
    // on which it is, so what it meets is bound to none.
    let on_host = || -> Result<Placement> {
        let found = host_of_lead(loaded, slots)?;
        let is_traced = |slot: &ArgumentSlot<'py>| match slot.class.role {
            Role::Refused(why) => slot.is_of(framework) && loaded.is_tracer(why),
            _ => false,
        };
        let is_free = || loaded.accelerators() == 0 && slots.iter().any(is_traced);
        Ok(if found == Placement::Auto && !is_free() { options.device } else { found })
    };
    match options.device {
        Placement::Auto => {}
        Placement::OnCurrent if loaded.accelerators() > 0 => {
            return Ok(Placement::On(Device::Accelerator(loaded.current_device()?)));
        }
        Placement::Gpu(index) if framework.memory != Memory::Host => {
            if loaded.accelerators() > 0 {
                return Ok(Placement::On(Device::Accelerator(index)));
            }
            if framework.memory == Memory::Either {
                // An array of the framework itself is not converted, so this is the place to warn.
                warnings::no_accelerator(py, framework)?;
            }
            return on_host();
        }
        Placement::On(Device::Host) => return on_host(),
        device => return Ok(device),
    }
    if framework.memory == Memory::Host {
        return Ok(Placement::Auto);
    }
    if loaded.accelerators() == 0 {
        return host_of_lead(loaded, slots);
    }
    for slot in slots.iter().filter(|slot| slot.class.is_array() && !slot.usage.is_opened()) {
        if slot.is_of(framework) {
            return Ok(Placement::On(loaded.device_of(&slot.value)?));
        }
        if let Some(device) = usable_device(loaded, slot)? {
            return Ok(Placement::On(device));
        }
    }
    Ok(Placement::On(Device::Accelerator(loaded.current_device()?)))
}

/// The host's device that the first array of the framework itself is bound to, if there are several.
pub fn host_of_lead<'py>(loaded: Loaded<'py>, slots: &ArgumentSlots<'py>) -> Result<Placement> {
    if !loaded.has_several_hosts()? {
        return Ok(Placement::Auto);
    }
    let own = slots.iter().find(|slot| slot.class.is_array() && slot.is_of(loaded.framework));
    let host = own.map(|slot| loaded.host_of(&slot.value)).transpose()?.flatten();
    Ok(host.map_or(Placement::Auto, Placement::OnHost))
}

/// The accelerator on which another framework's array is, if the framework of the call has it and takes memory there.
fn usable_device(loaded: Loaded<'_>, slot: &ArgumentSlot<'_>) -> Result<Option<Device>> {
    let source = slot.class.framework;
    if source.memory == Memory::Host || source.export.is_none() || loaded.framework.import.is_none()
    {
        return Ok(None);
    }
    let source = loaded::load(loaded.py(), source)?;
    Ok(match source.device_of(&slot.value)? {
        Device::Accelerator(index) if index < loaded.accelerators() => {
            Some(Device::Accelerator(index))
        }
        _ => None,
    })
}

/// The framework and the place that arrays are converted to, and the declaration.
struct Fitter<'a, 'py> {
    loaded: Loaded<'py>,
    definition: &'a Definition,
    placement: Placement,
    slots: &'a ArgumentSlots<'py>,
    /// The addresses of the arrays that the function is declared to write to, under any of their keys.
    written: HashSet<usize>,
}

impl<'py> Fitter<'_, 'py> {
    /// Fits all arrays, and puts those that are replaced into the arguments.
    fn fit(&self, fitted: &mut FittedArguments<'py>) -> Result<()> {
        let Fitter { definition, slots, .. } = *self;
        let mut replaced: Vec<(usize, Bound<'py, PyAny>)> = Vec::new();
        let (mut done, mut copied) = (Repeated::default(), HashSet::new());
        for (index, slot) in slots.iter().enumerate() {
            // The same array stays the same array.
            let value = match done.first(slots, index) {
                Some(first) => {
                    let same = replaced.binary_search_by_key(&first, |(index, _)| *index);
                    same.ok().map(|place| replaced[place].1.clone())
                }
                None => self
                    .counted(slot, || self.fit_slot(slot, fitted, &mut copied))
                    .map_err(|error| match index {
                        0 => with_unit_way(definition, slot, error),
                        _ => error,
                    })
                    .map_err(|error| names::in_argument(definition, &slot.key, error))?,
            };
            replaced.extend(value.map(|value| (index, value)));
        }
        if !copied.is_empty() {
            writes::expect_apart(definition, slots, &copied)?;
        }
        if !replaced.is_empty() {
            let given = (&fitted.args, fitted.kwargs.as_ref());
            (fitted.args, fitted.kwargs) = rebuild(definition, given, slots, replaced)?;
        }
        Ok(())
    }

    /// The value that the function receives for an array; `None` if that is what the caller passed. Notes the address
    /// of one that the function writes to a copy of.
    fn fit_slot(
        &self,
        slot: &ArgumentSlot<'py>,
        fitted: &mut FittedArguments<'py>,
        copied: &mut HashSet<usize>,
    ) -> Result<Option<Bound<'py, PyAny>>> {
        let target = self.loaded.framework;
        let is_written = self.is_written(slot);
        let (value, is_shared) = if slot.usage.is_opened() {
            (None, false)
        } else if slot.is_of(target) {
            let value = self.fit_own(slot)?;
            let is_shared = value.is_none();
            (value, is_shared)
        } else {
            let (value, route) = self.convert(slot)?;
            let is_shared = route == Route::Share;
            // Immutable memory on a device may be freed and reused before the work is done.
            let on_device = matches!(self.placement, Placement::On(Device::Accelerator(_)));
            let may_change = on_device || !slot.class.framework.immutable;
            fitted.must_wait |= is_shared && target.ready.is_some() && may_change;
            if is_shared && is_written {
                count_write(&slot.value)?;
            }
            (Some(value), is_shared)
        };
        if let Some(copy) = value.as_ref().filter(|_| !is_shared) {
            if is_written {
                copied.insert(slot.value.as_ptr() as usize);
            }
            fitted.writes.record_copy(self.definition, slot, copy, is_written);
        }
        let value = value.or_else(|| slot.is_part.then(|| slot.value.clone()));
        if is_shared && self.definition.options.counts_writes() && slot.class.is_array() {
            fitted.writes.record(value.as_ref().unwrap_or(&slot.value));
        }
        Ok(value)
    }

    /// Fits an array, and warns of what a cast to `input_dtype` has lost: as of a result, and on the host alone.
    fn counted<T>(&self, slot: &ArgumentSlot<'py>, fit: impl FnOnce() -> Result<T>) -> Result<T> {
        let wanted = self.definition.options.input_dtype.filter(|_| slot.class.is_array());
        let Some(to) = wanted else { return fit() };
        let source = loaded::load(self.loaded.py(), slot.class.framework)?;
        let from = source.dtype(&slot.value).filter(|from| !to.holds(*from));
        let Some(from) = from else { return fit() };
        let (fitted, clipped) = convert::counting_clipped(fit);
        let fitted = fitted?;
        if clipped > 0 {
            let argument = names::of_argument(self.definition, &slot.key);
            warnings::clipped(source.py(), &argument, clipped, from, to)?;
        }
        if from.is_integer() && to.is_inexact() {
            self.warn_of_rounding(slot, source, (from, to))?;
        }
        Ok(fitted)
    }

    /// Warns of integers that were rounded to floats. Those that cannot be opened have no values yet.
    fn warn_of_rounding(
        &self,
        slot: &ArgumentSlot<'py>,
        source: Loaded<'py>,
        (from, to): (DType, DType),
    ) -> Result<()> {
        let py = source.py();
        let host = attempt(py, source.device_of(&slot.value)).filter(|at| *at == Device::Host);
        let opened = host.and_then(|_| attempt(py, convert::open_host(&slot.value)));
        let Some(opened) = opened else { return Ok(()) };
        match cast::rounded(py, &opened.source, to)? {
            0 => Ok(()),
            rounded => {
                let argument = names::of_argument(self.definition, &slot.key);
                warnings::rounded(py, &argument, rounded, from, to)
            }
        }
    }

    /// Returns whether the function is declared to write to an array, under any of its keys.
    fn is_written(&self, slot: &ArgumentSlot<'py>) -> bool {
        self.written.contains(&(slot.value.as_ptr() as usize))
    }

    /// The value of `copy` for an array. `input_dtype` promises the function arrays of its own, also where the dtype is
    /// right, unless it is declared to write to the caller's.
    fn copy(&self, slot: &ArgumentSlot<'py>) -> Option<bool> {
        let (options, py) = (&self.definition.options, self.loaded.py());
        let is_promised = options.input_dtype.is_some() && !self.loaded.framework.immutable;
        match trace::copy_default(py, options.copy) {
            None if is_promised && !self.is_written(slot) => Some(true),
            _ => trace::or_always_copy(py, options.copy),
        }
    }

    /// Converts an array of another framework.
    fn convert(&self, slot: &ArgumentSlot<'py>) -> Result<(Bound<'py, PyAny>, Route)> {
        let Fitter { loaded, definition, placement, .. } = *self;
        let (target, options) = (loaded.framework, &definition.options);
        let endpoints = Endpoints { source: slot.class.framework, target };
        convert::warn_if_watched(&slot.value, endpoints)?;
        // The function may write to what it receives.
        let for_writing = slot.class.framework.immutable && !target.immutable;
        let copy = self.copy(slot);
        let request = Request { placement, copy, cast: options.input_dtype.into(), for_writing };
        convert::convert_narrowed(&slot.value, target, &request, || {
            definition.narrowing(loaded.py())
        })
    }

    /// Casts, moves or copies an array of the declared framework, if it has to be; `None` if not.
    fn fit_own(&self, slot: &ArgumentSlot<'py>) -> Result<Option<Bound<'py, PyAny>>> {
        let Fitter { loaded, definition, placement, .. } = *self;
        let options = &definition.options;
        let has = |dtype: &DType| loaded.dtype(&slot.value) == Some(*dtype);
        let dtype = options.input_dtype.filter(|dtype| !has(dtype));
        let mut request =
            Request { copy: self.copy(slot), cast: dtype.into(), ..Request::default() };
        if !slot.class.is_array() {
            let moved = self.moved_in_graph(slot)?;
            let value = moved.as_ref().unwrap_or(&slot.value);
            return Ok(convert::cast_in_graph(value, loaded, &request)?.or(moved));
        }
        let moves = match placement {
            Placement::On(device) if loaded.framework.memory != Memory::Host => {
                loaded.device_of(&slot.value)? != device
            }
            // The conversion raises the error that there is no such device.
            Placement::On(_) | Placement::OnHost(_) | Placement::OnCurrent => true,
            _ => false,
        };
        request.placement = if moves { placement } else { Placement::Auto };
        if request.keeps_own_arrays() {
            return Ok(None);
        }
        convert::convert_to(&slot.value, loaded.framework, &request).map(Some)
    }

    /// A traced array on the declared device, by an operation that the trace records; `None` if none is declared, or if
    /// the device of the call is enough.
    fn moved_in_graph(&self, slot: &ArgumentSlot<'py>) -> Result<Option<Bound<'py, PyAny>>> {
        let Fitter { loaded, definition, placement, .. } = *self;
        let framework = loaded.framework;
        let is_tracer = matches!(slot.class.role, Role::Refused(why) if loaded.is_tracer(why));
        let op = framework.device.r#move.filter(|op| is_tracer && op.uses[1]);
        let Some(op) = op.filter(|_| definition.options.device != Placement::Auto) else {
            return Ok(None);
        };
        let device = loaded.resolve(framework, Device::Host, placement)?;
        let object = match loaded.chosen_host(placement)? {
            Some(index) => Some(loaded.host_at(index)?),
            None if loaded.accelerators() == 0 => None,
            None => loaded.device_object(device)?,
        };
        let moved = object.map(|object| op.call(loaded, [&slot.value, &object]));
        Ok(moved.transpose()?)
    }
}
