//! The call of a declared function whose arguments fit already.
//!
//! It makes no tuple and no dictionary: the arguments are looked at where the caller has put them,
//! and handed on as they are. Whatever is not plain goes the long way.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use smallvec::SmallVec;

use super::arguments::{Slot, is_written_since, version};
use super::result::Of;
use super::signature::Usage;
use super::{Call, Core, Declared, Failed, Kind, Output, result};
use crate::declared::ladder;
use crate::declared::scope;
use crate::framework::detect::{self, Role};
use crate::framework::loaded;
use crate::framework::oom;
use crate::framework::spec::{Framework, Memory};
use crate::interpreter::tuples::plain_tuple;
use crate::interpreter::vectorcall::{self, Given};
use crate::policy::{Conversion, Policy};

/// How a declaration is served the short way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Short {
    /// With a look at the arguments and at the result.
    Looking,
    /// At once: the function opens all arrays itself and gives what is to be handed out.
    Blind,
}

impl Short {
    /// The short way for a declaration, if there is one.
    pub(super) fn of(core: &Core) -> Option<Short> {
        let options = &core.options;
        let same = |framework: &Framework| framework.memory_type == options.input.memory_type;
        let hands_out = match options.output {
            Output::Fixed(output) => options.delivers || same(output),
            Output::Input => options.delivers,
        };
        let simple = core.kind == Kind::Plain
            && options.is_plain_input()
            && options.contract.is_none()
            && !options.slice_by_slice
            && same(options.execution)
            && hands_out;
        let blind = options.delivers
            && options.conversion == Some(Conversion::NativeOutput)
            && !core.parameters.converts()
            && !scope::concern(options.execution);
        simple.then_some(if blind { Short::Blind } else { Short::Looking })
    }
}

pub(super) fn run<'py>(
    declared: &Bound<'py, Declared>,
    given: &Given<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, core) = (declared.py(), &declared.get().core);
    match core.short {
        Some(Short::Blind) if !has_added(core, given) => return blindly(py, core, given),
        Some(Short::Looking) => {
            let policy = core.options.policy(py);
            if !matches!(policy.conversion, Conversion::Force(_))
                && let Some(fits) = look(py, core, given)
            {
                return call(py, core, given, policy, fits);
            }
        }
        _ => {}
    }
    let (args, kwargs) = given.packed(py)?;
    Declared::__call__(declared, &args, kwargs.as_ref())
}

/// Whether a keyword is one that the declaration adds.
fn has_added(core: &Core, given: &Given<'_, '_>) -> bool {
    given.names().is_some_and(|names| {
        names
            .iter_borrowed()
            .any(|name| name.cast::<PyString>().is_ok_and(|name| core.parameters.is_added(&name)))
    })
}

/// The calling convention of a declaration that is served blindly: without keywords the arguments are
/// handed on in C, and Rust has to do with what is raised only.
///
/// # Safety
///
/// As Python's `vectorcallfunc`, with a [`Declared`].
pub(super) unsafe extern "C" fn hand_on(
    callable: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    nargsf: usize,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: Python's promise, for the call and for the arguments that are handed on; the object
    // keeps its function, and nothing is let go of here that PyO3 would have to count.
    unsafe {
        if !names.is_null() {
            return vectorcall::serve(callable, args, nargsf, names, run);
        }
        let py = Python::assume_attached();
        let declared = Borrowed::from_ptr(py, callable).cast_unchecked::<Declared>();
        let function = declared.get().core.function.as_ptr();
        let result = ffi::PyObject_Vectorcall(function, args, nargsf, names);
        if !result.is_null() {
            return result;
        }
        vectorcall::serve(callable, args, nargsf, names, |declared: &Bound<'_, Declared>, given| {
            let py = declared.py();
            recovered(py, &declared.get().core, given, PyErr::fetch(py))
        })
    }
}

fn blindly<'py>(
    py: Python<'py>,
    core: &Core,
    given: &Given<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    given.pass(core.function.bind(py)).or_else(|error| recovered(py, core, given, error))
}

/// What a function that was called blindly gives on the ladder, if its error leads there.
#[cold]
fn recovered<'py>(
    py: Python<'py>,
    core: &Core,
    given: &Given<'_, 'py>,
    error: PyErr,
) -> PyResult<Bound<'py, PyAny>> {
    if !is_exhausted(py, core, &error) {
        return Err(error);
    }
    let (args, kwargs) = given.packed(py)?;
    let call = Call::new(py, core, &args, kwargs.as_ref(), core.options.policy(py));
    let written = call.slots.iter().any(Slot::is_written);
    let raw = ladder::climb(&call, &call.slots, Failed { error, written })?;
    call.finish(raw, Of::Whole)
}

/// Whether an error is one that the declaration has a way out of.
fn is_exhausted(py: Python<'_>, core: &Core, error: &PyErr) -> bool {
    !core.options.ladder.is_empty() && oom::framework_of(py, error).is_some()
}

/// What a look at arguments that fit has found.
struct Fits<'a, 'py> {
    lead: Option<Borrowed<'a, 'py, PyAny>>,
    watched: SmallVec<[(Borrowed<'a, 'py, PyAny>, i64); 2]>,
    /// Whether an array is one that the function writes to.
    written: bool,
}

/// Looks at each argument; `None` where one does not fit, or a device has to be made current.
#[inline]
fn look<'a, 'py: 'a>(
    py: Python<'py>,
    core: &Core,
    given: &Given<'a, 'py>,
) -> Option<Fits<'a, 'py>> {
    let framework = core.options.input;
    if framework.memory != Memory::Host && !hosted(py, framework) {
        return None;
    }
    let watch = framework.version.is_some() && !core.options.ladder.is_empty();
    let mut fits = Fits { lead: None, watched: SmallVec::new(), written: false };
    let (positional, named) = given.all().split_at(given.positional());
    for (index, &value) in positional.iter().enumerate() {
        let (usage, _) = core.parameters.positional(index);
        if usage == Usage::Ignored {
            continue;
        }
        match detect::class_of(&value) {
            Some(_) if usage.is_opened() => {
                fits.written |= usage == Usage::Written;
                fits.lead.get_or_insert(value);
            }
            Some(class) if class.framework.memory_type != framework.memory_type => return None,
            Some(class) => {
                if watch && matches!(class.role, Role::Array) {
                    let version = version(framework, &value);
                    fits.watched.extend(version.map(|version| (value, version)));
                }
                fits.lead.get_or_insert(value);
            }
            None if is_container(&value) => return None,
            None => {}
        }
    }
    let Some(names) = given.names() else { return Some(fits) };
    for (name, value) in names.iter_borrowed().zip(named) {
        let name = name.cast::<PyString>().ok()?;
        // Which array leads, if one is given by name, is a question for the long way.
        if core.parameters.is_added(&name)
            || detect::class_of(value).is_some()
            || is_container(value)
        {
            return None;
        }
    }
    Some(fits)
}

fn is_container(value: &Bound<'_, PyAny>) -> bool {
    value.is_exact_instance_of::<PyList>() || plain_tuple(value).is_some()
}

/// Whether a framework has no accelerator here, so that there is no device to choose.
fn hosted(py: Python<'_>, framework: &'static Framework) -> bool {
    match loaded::if_loaded(py, framework) {
        Some(loaded) => loaded.accelerators(py) == 0,
        // What is not known yet is found out on the long way.
        None => !scope::concern(framework),
    }
}

fn call<'py>(
    py: Python<'py>,
    core: &Core,
    given: &Given<'_, 'py>,
    policy: Policy,
    fits: Fits<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    match given.pass(core.function.bind(py)) {
        Ok(result) => {
            let lead = fits.lead.as_deref();
            if result::is_done(&core.options, policy, lead, &result) {
                return Ok(result);
            }
            let (args, kwargs) = given.packed(py)?;
            Call::new(py, core, &args, kwargs.as_ref(), policy).finish(result, Of::Whole)
        }
        Err(error) if !is_exhausted(py, core, &error) => Err(error),
        Err(error) => {
            let (args, kwargs) = given.packed(py)?;
            let call = Call::new(py, core, &args, kwargs.as_ref(), policy);
            let input = core.options.input;
            let mut watched = fits.watched.iter();
            let changed = watched.any(|(array, before)| is_written_since(input, array, *before));
            let written = fits.written || changed;
            let raw = ladder::climb(&call, &call.slots, Failed { error, written })?;
            call.finish(raw, Of::Whole)
        }
    }
}
