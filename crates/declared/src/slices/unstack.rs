//! A stack taken apart into its slices.

use std::cell::LazyCell;
use std::ops::Range;

use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyList};

use super::join::is_recorded;
use super::undivided;
use arraybridge_host::layout::contiguous_bytes;
use arraybridge_host::vectors;
use arraybridge_runtime::convert::record::Record;
use arraybridge_runtime::convert::{self, Commitment, Opened, trace};
use arraybridge_runtime::framework::detect::{self, Class, Role};
use arraybridge_runtime::framework::device::Device;
use arraybridge_runtime::framework::loaded::{self, Loaded};
use arraybridge_runtime::framework::shape;
use arraybridge_runtime::framework::spec::{Framework, Slicing};
use arraybridge_runtime::interpreter::error::{Error, Result};
use arraybridge_runtime::interpreter::interrupt::is_interrupt;
use arraybridge_runtime::interpreter::tuples;
use arraybridge_tensor::memory::source::{SharedSource, Source};

/// The slices of an array along its first axis, one after the other.
pub(super) struct Slices<'py> {
    array: Bound<'py, PyAny>,
    count: usize,
    next: usize,
    way: SliceWay<'py>,
}

/// The way in which a slice is made.
enum SliceWay<'py> {
    /// The framework makes them together, or iterates over the array. That is faster than an index for each.
    Iterate(Bound<'py, PyIterator>),
    /// The framework makes some of them together.
    Groups(Groups<'py>),
    /// Each slice is made of a part of the array's memory.
    Memory(OnHost<'py>),
    Index,
}

/// Slices that the framework's own operation makes of one part of the array after the other, since they
/// may be copies, and not all of a large array are wanted at once.
struct Groups<'py> {
    class: Class,
    loaded: Loaded<'py>,
    /// The number of slices in the array.
    count: usize,
    /// The number of slices in a group.
    size: usize,
    /// The slices of the group that is in use. Each is let go of when it was handed out.
    slices: Option<std::vec::IntoIter<Bound<'py, PyAny>>>,
}

/// The number of parts in which a large array is taken.
const GROUPS: usize = 8;
/// The slices of an array of at most so many bytes are made at once.
const AT_ONCE: usize = 64 << 20;
/// So many slices of one of the framework's own classes take less than a millisecond, which an interrupt can wait. To
/// look for one before each slice made 64 views of a NumPy array take a tenth longer.
const UNINTERRUPTED: usize = 1024;

impl<'py> Groups<'py> {
    /// None if the framework has no such operation, or a group would be a single slice.
    fn new(
        array: &Bound<'py, PyAny>,
        class: &Class,
        loaded: Loaded<'py>,
        count: usize,
    ) -> Option<Groups<'py>> {
        class.framework.array.as_ref()?.unstack.as_ref()?;
        let dtype = loaded.dtype(array)?;
        let is_small = contiguous_bytes(&shape::of(array)?, dtype.size())? <= AT_ONCE;
        let size = if is_small { count } else { count / GROUPS };
        (size > 1).then(|| Groups { class: *class, loaded, count, size, slices: None })
    }

    /// The slice at an index; None if the framework does not make it. They are asked for one after the other.
    fn slice(
        &mut self,
        array: &Bound<'py, PyAny>,
        index: usize,
    ) -> Result<Option<Bound<'py, PyAny>>> {
        if index.is_multiple_of(self.size) {
            let part = match self.size == self.count {
                true => array.clone(),
                false => array.get_item(tuples::slice(array.py(), index..index + self.size)?)?,
            };
            let slices = together(&part, &self.class, self.loaded)?;
            let slices = slices.map(|slices| slices.collect::<PyResult<Vec<_>>>()).transpose()?;
            self.slices = slices.map(Vec::into_iter);
        }
        Ok(self.slices.as_mut().and_then(Iterator::next))
    }
}

impl<'py> Slices<'py> {
    /// The slices, each of which is made when it is asked for. `count` is the length of the first axis.
    pub fn new(array: Bound<'py, PyAny>, count: usize) -> Result<Slices<'py>> {
        Slices::made(array, count, false)
    }

    /// All slices. They may be made at once.
    pub fn all(array: Bound<'py, PyAny>, count: usize) -> Result<Bound<'py, PyList>> {
        let (py, is_own) = (array.py(), detect::class_of(&array).is_some_and(|class| class.own));
        let mut slices = Slices::made(array, count, true)?;
        // The shape alone does not say that there is memory for so many.
        let mut list = Vec::with_capacity(count.min(UNINTERRUPTED));
        if let SliceWay::Iterate(iterator) = &mut slices.way
            && is_own
        {
            while list.len() < count {
                if list.len().is_multiple_of(UNINTERRUPTED) {
                    py.check_signals()?;
                }
                let Some(slice) = iterator.next() else {
                    return Err(slices.ended(list.len()));
                };
                vectors::push(&mut list, slice?)?;
            }
        } else {
            for slice in slices {
                vectors::push(&mut list, slice?)?;
            }
        }
        Ok(PyList::new(py, list)?)
    }

    fn made(array: Bound<'py, PyAny>, count: usize, at_once: bool) -> Result<Slices<'py>> {
        let array = undivided(&array, [0])?;
        let way = way(&array, count, at_once)?;
        Ok(Slices { array, count, next: 0, way })
    }

    /// The iteration ended after so many slices.
    #[cold]
    fn ended(&self, found: usize) -> Error {
        let count = self.count;
        Error::Value(format!(
            "the array has {count} slices by its shape, and {found} when it is iterated over"
        ))
    }

    fn slice(&mut self, index: usize) -> Result<Bound<'py, PyAny>> {
        match &mut self.way {
            SliceWay::Iterate(iterator) => match iterator.next() {
                Some(slice) => Ok(slice?),
                None => Err(self.ended(index)),
            },
            SliceWay::Groups(groups) => match groups.slice(&self.array, index)? {
                Some(slice) => Ok(slice),
                None => Ok(self.array.get_item(index)?),
            },
            SliceWay::Memory(stack) => stack.array_of(self.array.py(), stack.memory.slice(index)),
            SliceWay::Index => Ok(self.array.get_item(index)?),
        }
    }
}

impl<'py> Iterator for Slices<'py> {
    type Item = Result<Bound<'py, PyAny>>;

    fn next(&mut self) -> Option<Self::Item> {
        let index = self.next;
        if index == self.count {
            return None;
        }
        self.next += 1;
        // A function without Python frames does not look for an interrupt.
        Some(match self.array.py().check_signals() {
            Ok(()) => self.slice(index),
            Err(error) => Err(error.into()),
        })
    }
}

/// How slices are made. The table is tried out with the dtype before.
fn way<'py>(array: &Bound<'py, PyAny>, count: usize, at_once: bool) -> Result<SliceWay<'py>> {
    let Some(class) = detect::class_of(array).filter(Class::is_array) else {
        return Ok(SliceWay::Index);
    };
    if let Some(memory) = OnHost::without_slices(array)? {
        return Ok(SliceWay::Memory(memory));
    }
    let loaded = loaded::load(array.py(), class.framework)?;
    if !class.framework.is_tested {
        convert::try_slices(loaded, loaded.dtype(array), |stack| {
            let count = shape::length_along(stack, 0).unwrap_or_default();
            let way = untried_way(stack, &class, loaded, count, at_once)?;
            Slices { array: stack.clone(), count, next: 0, way }.collect()
        })?;
        if let Some(memory) = OnHost::without_slices(array)? {
            return Ok(SliceWay::Memory(memory));
        }
    }
    untried_way(array, &class, loaded, count, at_once)
}

fn untried_way<'py>(
    array: &Bound<'py, PyAny>,
    class: &Class,
    loaded: Loaded<'py>,
    count: usize,
    at_once: bool,
) -> Result<SliceWay<'py>> {
    let framework = class.framework;
    // Nobody may write to slices that torch made together while it records for a gradient.
    let is_recorded = LazyCell::new(|| is_recorded(loaded, array));
    if at_once
        && (framework.immutable || !*is_recorded)
        && let Some(slices) = together(array, class, loaded)?
    {
        return Ok(SliceWay::Iterate(slices));
    }
    let one_by_one = || match framework.immutable {
        true => Groups::new(array, class, loaded, count).map_or(SliceWay::Index, SliceWay::Groups),
        false => SliceWay::Index,
    };
    // Nothing is recorded of memory.
    if *is_recorded {
        return Ok(one_by_one());
    }
    Ok(match OnHost::shared(array, class, loaded) {
        Some(memory) => SliceWay::Memory(memory),
        None if loaded.slicing() == Slicing::Index => one_by_one(),
        // Slices of immutable arrays are copies.
        None if at_once || !framework.immutable => iterated(array),
        None => one_by_one(),
    })
}

/// The slices that the framework's own operation makes, if the table names one and it takes the array.
fn together<'py>(
    array: &Bound<'py, PyAny>,
    class: &Class,
    loaded: Loaded<'py>,
) -> Result<Option<Bound<'py, PyIterator>>> {
    let (py, table) = (array.py(), class.framework.array.as_ref());
    let Some((table, unstack)) = table.and_then(|table| Some((table, table.unstack.as_ref()?)))
    else {
        return Ok(None);
    };
    let slices = table
        .namespace
        .call(loaded, [])
        .and_then(|xp| unstack.call(loaded, [&xp, array]))
        .and_then(|slices| slices.try_iter());
    match slices {
        Ok(slices) => Ok(Some(slices)),
        Err(error) if !is_interrupt(py, &error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn iterated<'py>(array: &Bound<'py, PyAny>) -> SliceWay<'py> {
    // Not the iteration by `__getitem__` alone, which ends at an IndexError.
    let iterates = array.get_type().hasattr(arraybridge_runtime::intern!(array.py(), "__iter__"));
    match array.try_iter() {
        Ok(iterator) if iterates.unwrap_or(false) => SliceWay::Iterate(iterator),
        _ => SliceWay::Index,
    }
}

/// Returns whether a framework's arrays have slices: by its table, or else by their class and what was tried out.
fn has_slices(array: &Bound<'_, PyAny>, framework: &'static Framework) -> bool {
    let (py, class) = (array.py(), array.get_type());
    let has = |name| class.hasattr(name).unwrap_or(true);
    let is_known = loaded::if_loaded(py, framework).map(Loaded::slicing).or(framework.slices);
    is_known != Some(Slicing::None)
        && (framework.slices.is_some()
            || has(arraybridge_runtime::intern!(py, "__getitem__"))
            || has(arraybridge_runtime::intern!(py, "__iter__")))
}

/// The host memory of an array, of which parts are made into arrays of its framework.
pub(super) struct OnHost<'py> {
    loaded: Loaded<'py>,
    memory: SharedSource,
    /// The device that the parts go to.
    device: Device,
    /// True if each part gets memory of its own.
    copies: bool,
}

impl<'py> OnHost<'py> {
    /// Does what [`OnHost::copied`] does, if the framework's own slices may fail, have other
    /// values, or be no arrays.
    pub fn without_slices(array: &Bound<'py, PyAny>) -> Result<Option<OnHost<'py>>> {
        let (py, Some(class)) = (array.py(), detect::class_of(array)) else { return Ok(None) };
        let framework = class.framework;
        // A framework without 0-d arrays may make a number of a slice of one element.
        let makes_numbers = framework.ndim.0 > 0;
        let has_slices = framework.is_tested || has_slices(array, framework);
        let slices_all = !makes_numbers && framework.no_slices.is_empty() && has_slices;
        if slices_all || !matches!(class.role, Role::Array) {
            return Ok(None);
        }
        let loaded = loaded::load(py, framework)?;
        let Some(dtype) = loaded.dtype(array) else { return Ok(None) };
        let title = framework.title;
        let why = match shape::of(array) {
            _ if !has_slices => format!("{title} has no slices"),
            _ if framework.no_slices.contains(dtype) => {
                format!("{title} cannot slice {dtype} without a loss")
            }
            Some(shape)
                if makes_numbers && shape.len() > 1 && shape[1..].iter().all(|n| *n == 1) =>
            {
                format!("{title} may make numbers of slices of one element")
            }
            _ => return Ok(None),
        };
        OnHost::copied(array, why).map(Some)
    }

    /// The memory, or a copy of it, of an array that the framework cannot slice. Parts are copied: PaddlePaddle
    /// waits for itself for ever when it releases memory that belongs to another tensor that it has imported.
    pub fn copied(array: &Bound<'py, PyAny>, why: String) -> Result<OnHost<'py>> {
        let (py, framework) = (array.py(), convert::class_of(array)?.framework);
        let loaded = loaded::load(py, framework)?;
        let start = trace::start();
        let device = loaded.device_of(array)?;
        let memory: SharedSource = convert::open_host(array)?.source.into();
        if let Some(start) = start {
            let name = framework.name;
            let record = Record::between(name, name, "copy", "slices of host memory").because(why);
            let record = record.of_memory(memory.view(), device);
            trace::push(py, record, start);
        }
        Ok(OnHost { loaded, memory, device, copies: true })
    }

    /// A framework whose arrays never change copies each slice. Where the array is in host memory, and on the
    /// only device that the framework has, slices of its memory are imported instead.
    fn shared(
        array: &Bound<'py, PyAny>,
        class: &Class,
        loaded: Loaded<'py>,
    ) -> Option<OnHost<'py>> {
        let framework = class.framework;
        let shares = framework.import.as_ref().is_some_and(|import| import.shares);
        if !framework.immutable
            || !shares
            || !matches!(class.role, Role::Array)
            || !loaded.has_one_device()
            || loaded.device_of(array).ok()? != Device::Host
        {
            return None;
        }
        let memory = convert::open_host(array).ok()?.source.into();
        Some(OnHost { loaded, memory, device: Device::Host, copies: false })
    }

    /// The elements in a range along each of some axes.
    pub fn region(
        &self,
        py: Python<'py>,
        ranges: &[(usize, Range<usize>)],
    ) -> Result<Bound<'py, PyAny>> {
        self.array_of(py, self.memory.region(ranges.iter().cloned()))
    }

    fn array_of(&self, py: Python<'py>, source: Source) -> Result<Bound<'py, PyAny>> {
        let mut part = Opened { source, private: false };
        if self.copies {
            part = convert::fresh(py, part, None)?;
        }
        convert::make_array(self.loaded, part, self.device, &Commitment::Placed)
    }
}
