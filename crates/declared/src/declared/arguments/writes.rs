//! The writes of one attempt to its arrays: whose memory the function gets, what shows that it has written there, and
//! what happens then.
//!
//! | the function gets | a write shows by | then |
//! |---|---|---|
//! | the caller's memory | the framework's count | the call is not made again |
//! | a copy | `writes=`, or the framework's count | it is written back, or refused if the caller's array is read-only |
//! | a copy that the declaration asks for | nothing | it is the function's own |
//!
//! Copies are written back when the function returns or raises, and after each step of a coroutine or a generator. A
//! call that is made again gets new copies, so those of an attempt that failed are written back only if it was the last.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyEllipsis;
use smallvec::SmallVec;

use super::{ArgumentKey, ArgumentSlot, ArgumentSlots, UnboundSlot, names};
use crate::declared::definition::Definition;
use arraybridge_runtime::convert::{Destination, Places, Request};
use arraybridge_runtime::framework::endpoints::Endpoints;
use arraybridge_runtime::framework::loaded::{self, Loaded};
use arraybridge_runtime::framework::spec::{Framework, Memory};
use arraybridge_runtime::framework::writes::{has_changed, version};
use arraybridge_runtime::interpreter::error::{Error, Failure, Result, add_note, first_line};
use arraybridge_runtime::memory::numpy_array;

const READ_ONLY: &str = "the array is read-only";

/// The arrays that a function could write to, for one attempt.
pub struct Writes {
    /// The framework of what the function gets.
    framework: &'static Framework,
    arrays: SmallVec<[WritableArray; 2]>,
    /// True if an array of the caller has no count of writes, though its framework has one for others.
    uncounted: bool,
    /// True once something was written back.
    written_back: AtomicBool,
}

/// An array that the function gets and could write to.
struct WritableArray {
    array: Py<PyAny>,
    /// The number of writes to it that are known, if its framework counts them.
    version: Option<AtomicI64>,
    /// The caller's array, if this is a copy of it, and whether the function is declared to write to it.
    original: Option<Box<(UnboundSlot, bool)>>,
}

impl WritableArray {
    /// Returns whether it was written to. One that has no count any more counts as written to.
    fn has_changed(&self, py: Python<'_>, framework: &'static Framework) -> bool {
        self.version.as_ref().is_some_and(|before| {
            has_changed(framework, self.array.bind(py), before.load(Ordering::Relaxed))
        })
    }
}

impl Writes {
    /// No arrays yet, which will be of a framework.
    #[inline]
    pub fn of(framework: &'static Framework) -> Writes {
        let (arrays, written_back) = (SmallVec::new(), AtomicBool::new(false));
        Writes { framework, arrays, uncounted: false, written_back }
    }

    /// Records an array of the caller that the function gets.
    #[inline]
    pub fn record(&mut self, array: &Bound<'_, PyAny>) {
        if self.framework.version.is_none() {
            return;
        }
        let version = version(self.framework, array).map(AtomicI64::new);
        self.uncounted |= version.is_none();
        self.arrays.push(WritableArray { array: array.clone().unbind(), version, original: None });
    }

    /// Records a copy that the function gets in place of an array of the caller. A declaration that asks for copies, or
    /// for another dtype, says that the function has arrays of its own.
    pub fn record_copy<'py>(
        &mut self,
        definition: &Definition,
        slot: &ArgumentSlot<'py>,
        copy: &Bound<'py, PyAny>,
        is_declared: bool,
    ) {
        let options = &definition.options;
        let is_own = options.copy == Some(true) || options.input_dtype.is_some();
        if is_own || slot.class.framework.immutable || !slot.class.is_array() {
            return;
        }
        let version = version(self.framework, copy).map(AtomicI64::new);
        if is_declared || version.is_some() {
            let original = Some(Box::new((slot.clone().into(), is_declared)));
            self.arrays.push(WritableArray { array: copy.clone().unbind(), version, original });
        }
    }

    /// Adds what another attempt wrote, whose copies were written back.
    pub fn extend(&mut self, other: Writes) {
        let shared = other.arrays.into_iter().filter(|written| written.original.is_none());
        self.arrays.extend(shared);
        self.uncounted |= other.uncounted;
        *self.written_back.get_mut() |= other.written_back.into_inner();
    }

    /// Why the caller's arrays may not be as they were before the attempt, so that the call must not be made again.
    pub fn obstacle(&self, py: Python<'_>) -> Option<&'static str> {
        let mut shared = self.arrays.iter().filter(|written| written.original.is_none());
        if self.written_back.load(Ordering::Relaxed)
            || shared.any(|written| written.has_changed(py, self.framework))
        {
            return Some(WRITTEN);
        }
        self.uncounted.then_some(UNCOUNTED)
    }

    /// Writes the copies back that the function has written to since the last time. All are written back, also if one
    /// cannot be.
    ///
    /// # Errors
    ///
    /// The first error of a conversion, and [`Failure::Copy`] for an array that is read-only.
    pub fn write_back(&self, py: Python<'_>, definition: &Definition) -> Result<()> {
        let mut outcome = Ok(());
        for written in &self.arrays {
            let Some((slot, is_declared)) = written.original.as_deref() else { continue };
            if !is_declared && !written.has_changed(py, self.framework) {
                continue;
            }
            let (slot, copy) = (slot.bind(py), written.array.bind(py));
            let done = self.written(copy, &slot);
            if let Some(before) = &written.version {
                let now = version(self.framework, copy).unwrap_or_default();
                before.store(now, Ordering::Relaxed);
            }
            let done = done.map_err(|error| names::in_argument(definition, &slot.key, error));
            outcome = outcome.and(done);
        }
        outcome
    }

    /// Writes the copies back that a function has written to before it raised. What goes wrong is a note.
    #[cold]
    pub fn write_back_after(&self, py: Python<'_>, definition: &Definition, error: &PyErr) {
        if let Err(second) = self.write_back(py, definition) {
            let line = first_line(py, &second.into());
            let _ = add_note(py, error, &format!("arraybridge could not write back: {line}"));
        }
    }

    fn written<'py>(&self, copy: &Bound<'py, PyAny>, slot: &ArgumentSlot<'py>) -> Result<()> {
        let (source, target) = (slot.class.framework, self.framework);
        if is_read_only(&slot.value) {
            return Err(refused(Endpoints { source, target }, "has written", READ_ONLY));
        }
        if slot.is_part && is_cut_into_copies(source) {
            return Err(refused(Endpoints { source, target }, "has written", &copies(source)));
        }
        let cast = loaded::load(copy.py(), source)?.dtype(&slot.value).into();
        let request = Request { cast, ..Request::default() };
        self.written_back.store(true, Ordering::Relaxed);
        let whole = PyEllipsis::get(copy.py());
        Destination::new(&slot.value, source)?.write(whole.as_any(), copy, &request)
    }

    /// Visits the arrays, for the garbage collector.
    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.arrays.iter().try_for_each(|written| {
            visit.call(&written.array)?;
            match &written.original {
                Some(original) => original.0.visit(visit),
                None => Ok(()),
            }
        })
    }
}

/// The scope in which a framework makes arrays with a count of writes, if it would make them without one now.
pub fn counting(loaded: Loaded<'_>) -> Result<Option<Bound<'_, PyAny>>> {
    let Framework { uncounted, counting, .. } = loaded.framework;
    match (uncounted, counting) {
        (Some(uncounted), Some(counting)) if uncounted.holds(loaded, [])? => {
            Ok(Some(counting.call(loaded, [])?))
        }
        _ => Ok(None),
    }
}

/// The reason not to make a call again whose arrays are not what they were.
pub const WRITTEN: &str = "the function had written to an argument";

/// The same, where nobody knows.
pub const UNCOUNTED: &str = "the function may have written to an argument, since writes to inference tensors are not \
    counted; declare it with writes=() if it writes to none, or with copy=True";

/// Refuses an array that the function is declared to write to, and that nobody can write to.
///
/// # Errors
///
/// [`Failure::Copy`].
pub fn check(
    definition: &Definition,
    target: &'static Framework,
    slots: &ArgumentSlots<'_>,
) -> Result<()> {
    for slot in slots.iter().filter(|slot| is_declared(definition, &slot.key)) {
        let source = slot.class.framework;
        let why = match source.immutable {
            true => format!("{} arrays never change", source.title),
            false if is_read_only(&slot.value) => READ_ONLY.to_owned(),
            false => continue,
        };
        let error = refused(Endpoints { source, target }, "writes", &why);
        return Err(names::in_argument(definition, &slot.key, error));
    }
    Ok(())
}

/// Refuses copies that the function writes to, by the addresses of their originals, of which one overlaps another array
/// of the call: a write to one of them would not be seen in the other.
///
/// # Errors
///
/// [`Error::Aliased`] with both arguments.
pub fn expect_apart(
    definition: &Definition,
    slots: &ArgumentSlots<'_>,
    copied: &HashSet<usize>,
) -> Result<()> {
    let address = |slot: &ArgumentSlot<'_>| slot.value.as_ptr() as usize;
    let mut seen = HashSet::new();
    let different = slots.iter().filter(|slot| seen.insert(address(slot)));
    let found = overlapping(different, |slot| copied.contains(&address(slot)))?;
    let Some(pair) = found else { return Ok(()) };
    let [one, other] = pair.map(|slot| names::of_argument(definition, &slot.key));
    Err(Error::Aliased(format!(
        "{one} is written to, and its memory overlaps that of {other}, of which the function gets another copy; pass a \
         copy of one of them"
    )))
}

/// An array that is written to, and another one whose memory overlaps it.
///
/// # Errors
///
/// As [`Places::of`].
pub fn overlapping<'a, 'py>(
    slots: impl Iterator<Item = &'a ArgumentSlot<'py>>,
    is_written: impl Fn(&ArgumentSlot<'py>) -> bool,
) -> Result<Option<[&'a ArgumentSlot<'py>; 2]>>
where
    'py: 'a,
{
    let (mut places, mut found) = (Vec::new(), Vec::new());
    for slot in slots {
        if let Some(place) = Places::of(&slot.value)? {
            places.push((place, is_written(slot)));
            found.push(slot);
        }
    }
    Ok(Places::find_overlap(&places).map(|pair| pair.map(|index| found[index])))
}

fn refused(endpoints: Endpoints, verb: &str, why: &str) -> Error {
    let reason =
        format!("the function {verb} to it, but {why}; pass an array that can be written to");
    endpoints.error(Failure::Copy, "write", reason)
}

/// Refuses an array that the function is declared to write to, and each part of which is a copy.
///
/// # Errors
///
/// [`Failure::Copy`].
pub fn check_parts(definition: &Definition, slot: &ArgumentSlot<'_>) -> Result<()> {
    let Definition { options, .. } = definition;
    let is_own = options.copy == Some(true) || options.input_dtype.is_some();
    let (source, target) = (slot.class.framework, options.input);
    if is_own || !is_cut_into_copies(source) || !is_declared(definition, &slot.key) {
        return Ok(());
    }
    let error = refused(Endpoints { source, target }, "writes", &copies(source));
    Err(names::in_argument(definition, &slot.key, error))
}

/// Returns whether parts of an array are copies: no view of a device's memory is made without DLPack.
fn is_cut_into_copies(framework: &Framework) -> bool {
    framework.export.is_none() && framework.memory != Memory::Host
}

fn copies(source: &Framework) -> String {
    format!("each part of a {} array is a copy", source.title)
}

/// Returns whether the function is declared to write to the argument with this key.
pub fn is_declared(definition: &Definition, key: &ArgumentKey<'_>) -> bool {
    names::is_among(definition, key, definition.options.writes_to())
}

/// Returns whether an array is a NumPy array that is marked as read-only.
fn is_read_only(array: &Bound<'_, PyAny>) -> bool {
    numpy_array::array(array).is_some_and(|array| !numpy_array::is_writeable(array))
}
