//! The arrays among the arguments of a call, found and brought to where the function wants them.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use smallvec::SmallVec;

use super::Core;
use super::options::Options;
use super::signature::Usage;
use crate::convert::plan::Route;
use crate::convert::{self, Request};
use crate::framework::detect::{self, Class, Role};
use crate::framework::device::{self, Device, Placement};
use crate::framework::endpoints::Endpoints;
use crate::framework::loaded::{self, LoadedFramework};
use crate::framework::spec::{DType, Framework, Kind, Memory};
use crate::interpreter::error::Result;
use crate::interpreter::tuples::{plain_tuple, rebuilt};

/// Which argument an array is, or is in.
#[derive(Clone)]
pub enum Place<'py> {
    /// By position.
    Positional(usize),
    /// By name.
    Keyword(Bound<'py, PyString>),
}

impl Place<'_> {
    fn is(&self, other: &Place<'_>) -> bool {
        match (self, other) {
            (Place::Positional(this), Place::Positional(that)) => this == that,
            (Place::Keyword(this), Place::Keyword(that)) => this.is(that),
            _ => false,
        }
    }
}

/// An array among the arguments.
pub struct Slot<'py> {
    /// Which argument it is, or is in.
    pub place: Place<'py>,
    /// Its place in a list or a tuple.
    inner: Option<usize>,
    /// Its place in the order of the signature.
    order: usize,
    /// The array, as the caller gave it, or a part of it.
    pub value: Bound<'py, PyAny>,
    /// What it is.
    pub class: Class,
    /// Whether the value is a part of what the caller gave.
    changed: bool,
    /// What becomes of it.
    usage: Usage,
}

/// The arrays of a call, in the order of the signature.
pub type Slots<'py> = SmallVec<[Slot<'py>; 4]>;

/// Finds the arrays that a declaration converts.
pub fn scan<'py>(
    core: &Core,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> Slots<'py> {
    let mut slots = Slots::new();
    for (index, value) in args.iter_borrowed().enumerate() {
        let (usage, order) = core.parameters.positional(index);
        if usage != Usage::Ignored {
            collect(&mut slots, Place::Positional(index), usage, order, value.to_owned());
        }
    }
    let Some(kwargs) = kwargs.filter(|kwargs| !kwargs.is_empty()) else { return slots };
    for (key, value) in kwargs {
        let Ok(key) = key.cast_into::<PyString>() else { continue };
        let (usage, order) = core.parameters.keyword(&key.to_string_lossy());
        if usage != Usage::Ignored {
            collect(&mut slots, Place::Keyword(key), usage, order, value);
        }
    }
    slots.sort_by_key(|slot| slot.order);
    slots
}

#[inline]
fn collect<'py>(
    slots: &mut Slots<'py>,
    place: Place<'py>,
    usage: Usage,
    order: usize,
    value: Bound<'py, PyAny>,
) {
    if let Some(class) = detect::class_of(&value) {
        slots.push(Slot { place, inner: None, order, value, class, changed: false, usage });
        return;
    }
    let mut look = |index: usize, value: Bound<'py, PyAny>| {
        if let Some(class) = detect::class_of(&value) {
            let (place, inner) = (place.clone(), Some(index));
            slots.push(Slot { place, inner, order, value, class, changed: false, usage });
        }
    };
    if let Ok(list) = value.cast_exact::<PyList>() {
        list.iter().enumerate().for_each(|(index, value)| look(index, value));
    } else if let Some(tuple) = plain_tuple(&value) {
        tuple.iter().enumerate().for_each(|(index, value)| look(index, value));
    }
}

/// The length of an array along an axis, if it has the axis and the length is known.
pub fn length_along(array: &Bound<'_, PyAny>, axis: usize) -> Option<usize> {
    let shape = array.getattr(pyo3::intern!(array.py(), "shape")).ok()?;
    shape.get_item(axis).ok()?.extract().ok()
}

impl<'py> Slot<'py> {
    /// The slot with a part of its array.
    pub fn with(&self, value: Bound<'py, PyAny>) -> Option<Slot<'py>> {
        let class = detect::class_of(&value)?;
        Some(Slot { value, class, changed: true, ..self.same() })
    }

    /// The slot as it is.
    pub fn same(&self) -> Slot<'py> {
        Slot {
            place: self.place.clone(),
            inner: self.inner,
            order: self.order,
            value: self.value.clone(),
            class: self.class,
            changed: self.changed,
            usage: self.usage,
        }
    }

    /// Whether the function writes to it.
    pub fn is_written(&self) -> bool {
        self.usage == Usage::Written
    }

    /// Whether the function opens its memory itself.
    pub fn is_opened(&self) -> bool {
        self.usage.is_opened()
    }

    /// Whether it is an array of a framework, of any kind.
    pub fn is_of(&self, framework: &Framework) -> bool {
        self.class.framework.memory_type == framework.memory_type
    }

    fn is_plain(&self) -> bool {
        matches!(self.class.role, Role::Array)
    }

    /// Whether it is an array with values of its own, and no trace or gradient hangs on it.
    pub fn is_concrete(&self) -> bool {
        let (py, framework) = (self.value.py(), self.class.framework);
        let Ok(loaded) = loaded::load(py, framework, Endpoints::of(framework)) else {
            return false;
        };
        self.is_plain()
            && !loaded.is_guarded(py, &self.value, None)
            && loaded.reason(py, &self.value).is_none()
    }
}

/// Where arguments go when it is not where the declaration says.
#[derive(Clone, Copy, Debug)]
pub struct Aim {
    /// The framework.
    pub target: &'static Framework,
    /// The place.
    pub placement: Placement,
}

/// Arguments as the function wants them.
pub struct Fitted<'py> {
    /// By position.
    pub args: Bound<'py, PyTuple>,
    /// By name.
    pub kwargs: Option<Bound<'py, PyDict>>,
    /// Whether memory that somebody may write to was shared with a framework that runs later than
    /// it returns.
    pub wait: bool,
    /// The arrays that the function could write to.
    pub watched: Watched<'py>,
    /// The accelerator that the call was placed on, where that had to be found out.
    pub device: Option<Device>,
}

impl<'py> Fitted<'py> {
    /// What the function gets for an array of the call.
    pub fn at(&self, slot: &Slot<'py>) -> Option<Bound<'py, PyAny>> {
        let outer = match &slot.place {
            Place::Positional(index) => self.args.get_item(*index).ok(),
            Place::Keyword(key) => self.kwargs.as_ref()?.get_item(key).ok()?,
        }?;
        match slot.inner {
            Some(inner) => outer.get_item(inner).ok(),
            None => Some(outer),
        }
    }
}

/// Arrays of the caller that a function could write to, with the number of writes so far, as far as
/// their framework counts.
#[derive(Default)]
pub struct Watched<'py>(SmallVec<[(Bound<'py, PyAny>, i64); 2]>);

impl<'py> Watched<'py> {
    /// Watches one more.
    #[inline]
    pub fn add(&mut self, framework: &'static Framework, array: &Bound<'py, PyAny>) {
        self.0.extend(version(framework, array).map(|version| (array.clone(), version)));
    }

    /// Watches those that something else watched.
    pub fn extend(&mut self, others: Watched<'py>) {
        self.0.extend(others.0);
    }

    /// Whether one was written to.
    pub fn is_written(&self, framework: &'static Framework) -> bool {
        self.0.iter().any(|(array, before)| is_written_since(framework, array, *before))
    }

    /// For something that outlives the call.
    pub fn unbind(self) -> Vec<(Py<PyAny>, i64)> {
        self.0.into_iter().map(|(array, version)| (array.unbind(), version)).collect()
    }

    /// Watched again.
    pub fn bind(py: Python<'py>, arrays: &[(Py<PyAny>, i64)]) -> Watched<'py> {
        Watched(arrays.iter().map(|(array, n)| (array.bind(py).clone(), *n)).collect())
    }
}

pub(super) fn version(framework: &'static Framework, array: &Bound<'_, PyAny>) -> Option<i64> {
    let py = array.py();
    let op = framework.version?;
    let loaded = loaded::load(py, framework, Endpoints::of(framework)).ok()?;
    op.call(py, [loaded.module(py), array]).ok()?.extract().ok()
}

/// Whether an array was written to since its version was looked at.
pub(super) fn is_written_since(
    framework: &'static Framework,
    array: &Bound<'_, PyAny>,
    before: i64,
) -> bool {
    version(framework, array).is_none_or(|now| now != before)
}

/// Brings the arrays of a call to the declared framework and to one device. What fits already is
/// not touched.
///
/// # Errors
///
/// As `convert`.
pub fn fit<'py>(
    core: &Core,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
    slots: &Slots<'py>,
    aim: Option<Aim>,
) -> Result<Fitted<'py>> {
    let mut fitted = Fitted {
        args: args.clone(),
        kwargs: kwargs.cloned(),
        wait: false,
        watched: Watched::default(),
        device: None,
    };
    let options = &core.options;
    let target = aim.map_or(options.input, |aim| aim.target);
    let plain = options.is_plain_input() && aim.is_none();
    let changed = slots.iter().any(|slot| slot.changed);
    let own = slots.iter().all(|slot| slot.usage.is_opened() || slot.is_of(target));
    let single = slots.len() <= 1 || target.memory == Memory::Host;
    if own && plain && !changed && single && target.version.is_none() && target.stream.is_none() {
        return Ok(fitted);
    }
    let Some(first) = slots.first() else { return Ok(fitted) };
    let py = first.value.py();
    let loaded = loaded::load(py, target, Endpoints::of(target))?;
    let watch = !options.ladder.is_empty();
    if own && plain && !changed && loaded.accelerators(py) == 0 {
        let watched = |slot: &&Slot<'py>| watch && slot.is_plain() && slot.is_of(target);
        slots.iter().filter(watched).for_each(|slot| fitted.watched.add(target, &slot.value));
        return Ok(fitted);
    }
    let placement = match aim {
        Some(aim) => aim.placement,
        None => place(py, loaded, options, slots)?,
    };
    if let Placement::On(device) = placement {
        fitted.device = Some(device);
    }
    let mut replaced: Vec<(usize, Bound<'py, PyAny>)> = Vec::new();
    for (index, slot) in slots.iter().enumerate() {
        let (value, shared) = match slot.is_of(target) {
            _ if slot.usage.is_opened() => (None, false),
            true => {
                let value = own_array(py, loaded, options, slot, placement)?;
                let shared = value.is_none();
                (value, shared)
            }
            false => {
                let (value, route) = foreign(loaded, options, slot, placement)?;
                // An immutable array on a device may go, and its memory be used again.
                let host = !matches!(placement, Placement::On(Device::Accelerator(_)));
                let later = target.ready.is_some() && !(host && slot.class.framework.immutable);
                fitted.wait |= later && route == Route::Share;
                (Some(value), route == Route::Share)
            }
        };
        let value = value.or_else(|| slot.changed.then(|| slot.value.clone()));
        let used = value.as_ref().unwrap_or(&slot.value);
        if watch && shared && slot.is_plain() {
            fitted.watched.add(target, used);
        }
        replaced.extend(value.map(|value| (index, value)));
    }
    if !replaced.is_empty() {
        rebuild(&mut fitted, slots, replaced)?;
    }
    Ok(fitted)
}

impl Options {
    /// Whether arrays of the declared framework are handed on wherever they are.
    #[inline]
    pub(super) fn is_plain_input(&self) -> bool {
        self.device == Placement::Auto && self.input_dtype.is_none() && self.copy != Some(true)
    }
}

/// The one device of a call.
///
/// # Errors
///
/// What the framework raises when it is asked where an array is.
pub fn place<'py>(
    py: Python<'py>,
    loaded: &LoadedFramework,
    options: &Options,
    slots: &Slots<'py>,
) -> Result<Placement> {
    if options.device != Placement::Auto {
        return Ok(options.device);
    }
    let framework = loaded.framework;
    if framework.memory == Memory::Host || loaded.accelerators(py) == 0 {
        return Ok(Placement::Auto);
    }
    match slots.iter().find(|slot| slot.is_of(framework) && slot.is_plain()) {
        Some(slot) => Ok(Placement::On(device::device_of(py, loaded, &slot.value)?)),
        None => Ok(Placement::On(Device::Accelerator(device::current(py, loaded)?))),
    }
}

/// An array of another framework, converted.
fn foreign<'py>(
    loaded: &LoadedFramework,
    options: &Options,
    slot: &Slot<'py>,
    placement: Placement,
) -> Result<(Bound<'py, PyAny>, Route)> {
    let target = loaded.framework;
    // The function may write into what it is handed.
    let apart = slot.class.framework.immutable && !target.immutable;
    let request = Request { placement, copy: options.copy, dtype: options.input_dtype, apart };
    convert::convert_routed(&slot.value, target, &request)
}

/// An array of the declared framework: untouched, unless it is on another device, or a copy or a
/// cast is asked for.
fn own_array<'py>(
    py: Python<'py>,
    loaded: &LoadedFramework,
    options: &Options,
    slot: &Slot<'py>,
    placement: Placement,
) -> Result<Option<Bound<'py, PyAny>>> {
    let mut value = None;
    if let Some(dtype) = options.input_dtype {
        value = cast(py, loaded, slot, dtype)?;
    }
    if !slot.is_plain() {
        return Ok(value);
    }
    let here = value.as_ref().unwrap_or(&slot.value);
    let moves = match placement {
        Placement::On(device) if loaded.framework.memory != Memory::Host => {
            device::device_of(py, loaded, here)? != device
        }
        // A host framework says itself that it has no such device.
        Placement::On(_) => true,
        _ => false,
    };
    let copy = options.copy.filter(|copy| !copy || value.is_none());
    if !moves && copy != Some(true) {
        return Ok(value);
    }
    let placement = if moves { placement } else { Placement::Auto };
    let request = Request { placement, copy, ..Request::default() };
    Ok(Some(convert::convert_to(here, loaded.framework, &request)?))
}

/// Casts an array of the declared framework: by the framework's own operation where a gradient or
/// a trace has to go through it and nothing can overflow, else with the exact kernels.
fn cast<'py>(
    py: Python<'py>,
    loaded: &LoadedFramework,
    slot: &Slot<'py>,
    dtype: DType,
) -> Result<Option<Bound<'py, PyAny>>> {
    let request = Request { dtype: Some(dtype), ..Request::default() };
    // The frameworks' own operations would go on without the imaginary part.
    if let Some(has) = convert::dtype_of(py, loaded, &slot.value)
        && convert::cast_of(Endpoints::of(loaded.framework), has, &request)?.is_none()
    {
        return Ok(None);
    }
    let lossless = matches!(dtype.kind(), Kind::Float | Kind::Complex);
    let object = loaded.dtype_object(py, dtype);
    if let (Some(ops), Some(object)) = (&loaded.framework.array, object)
        && (lossless || !slot.is_plain())
    {
        let xp = ops.namespace.call(py, [loaded.module(py)])?;
        let value = ops.astype.call(py, [loaded.module(py), &xp, &slot.value, &object])?;
        return Ok(Some(value));
    }
    Ok(Some(convert::convert_to(&slot.value, loaded.framework, &request)?))
}

/// Puts converted arrays in the place of what the caller gave. The caller's own lists and
/// dictionaries stay as they are.
fn rebuild<'py>(
    fitted: &mut Fitted<'py>,
    slots: &Slots<'py>,
    replaced: Vec<(usize, Bound<'py, PyAny>)>,
) -> Result<()> {
    let py = fitted.args.py();
    let mut args: Vec<Bound<'py, PyAny>> = fitted.args.iter().collect();
    let kwargs = fitted.kwargs.as_ref().map(|kwargs| kwargs.copy()).transpose()?;
    let mut replaced = replaced.into_iter().peekable();
    while let Some((index, value)) = replaced.next() {
        let slot = &slots[index];
        let current = match &slot.place {
            Place::Positional(position) => Some(args[*position].clone()),
            Place::Keyword(key) => {
                kwargs.as_ref().map(|kwargs| kwargs.get_item(key)).transpose()?.flatten()
            }
        };
        let value = match (slot.inner, current) {
            (Some(inner), Some(sequence)) => {
                let mut elements: Vec<_> = sequence.try_iter()?.collect::<PyResult<_>>()?;
                elements[inner] = value;
                // The arrays of one list follow each other.
                while let Some((next, value)) =
                    replaced.next_if(|(next, _)| slots[*next].place.is(&slot.place))
                {
                    elements[slots[next].inner.unwrap_or(inner)] = value;
                }
                rebuilt(&sequence, elements)?
            }
            _ => value,
        };
        match (&slot.place, &kwargs) {
            (Place::Positional(position), _) => args[*position] = value,
            (Place::Keyword(key), Some(kwargs)) => kwargs.set_item(key, value)?,
            (Place::Keyword(_), None) => {}
        }
    }
    fitted.args = PyTuple::new(py, args)?;
    fitted.kwargs = kwargs;
    Ok(())
}
