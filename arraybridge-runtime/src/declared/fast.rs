//! The call of a declared function whose arguments fit already.
//!
//! It makes no tuple and no dictionary: the arguments are looked at where the caller has put them,
//! and handed on as they are. Whatever is not plain goes the long way.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::exceptions::PySystemError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use smallvec::SmallVec;

use super::arguments::{plain_tuple, version};
use super::{Call, Core, Declared, Failed, Kind, Output, result};
use crate::detect::{self, Role};
use crate::policy::{Conversion, Policy};
use crate::spec::{Framework, Memory};
use crate::{ladder, live, oom, streams};

/// Sets the class up for Python's calling convention without tuples. Called once.
///
/// PyO3 has no such slot. The class is its own, is not subclassed, and nobody has called an
/// instance yet.
#[cfg(not(Py_LIMITED_API))]
pub(super) fn install(declared: &Bound<'_, Declared>) {
    let field = &raw const declared.get().vectorcall;
    let offset = field as isize - declared.as_ptr() as isize;
    // SAFETY: the class is a heap type that lives as long as its instance here; the interpreter is
    // attached. Each instance has the function's pointer at the same offset, since all instances of
    // the class are laid out alike, and it never changes.
    unsafe {
        let class = ffi::Py_TYPE(declared.as_ptr());
        (*class).tp_vectorcall_offset = offset as ffi::Py_ssize_t;
        (*class).tp_flags |= ffi::Py_TPFLAGS_HAVE_VECTORCALL;
        ffi::PyType_Modified(class);
    }
}

/// The stable interface does not let a class be set up afterwards.
#[cfg(Py_LIMITED_API)]
pub(super) fn install(_declared: &Bound<'_, Declared>) {}

/// The function at the offset that [`install`] tells Python.
///
/// # Safety
///
/// As Python's `vectorcallfunc`, with an instance of [`Declared`].
pub(super) unsafe extern "C" fn vectorcall(
    callable: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    nargsf: usize,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    Python::attach(|py| {
        let call = || {
            // SAFETY: Python's promise for the arguments of such a call, and its class.
            unsafe {
                let declared = Bound::from_borrowed_ptr(py, callable).cast_into_unchecked();
                let names = Bound::from_borrowed_ptr_or_opt(py, names)
                    .map(|names| names.cast_into_unchecked::<PyTuple>());
                let given = Given { args, nargsf, names };
                run(&declared, &given)
            }
        };
        let done = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| {
            Err(PySystemError::new_err("arraybridge failed in a way that it should not"))
        });
        match done {
            Ok(result) => result.into_ptr(),
            Err(error) => {
                error.restore(py);
                std::ptr::null_mut()
            }
        }
    })
}

/// The arguments of a call, where the caller has put them.
struct Given<'py> {
    args: *const *mut ffi::PyObject,
    nargsf: usize,
    names: Option<Bound<'py, PyTuple>>,
}

impl<'py> Given<'py> {
    fn positional(&self) -> usize {
        self.nargsf & !ffi::PY_VECTORCALL_ARGUMENTS_OFFSET
    }

    /// An argument by position, or one by name after them.
    ///
    /// # Safety
    ///
    /// There are more than `index`.
    unsafe fn get(&self, py: Python<'py>, index: usize) -> Bound<'py, PyAny> {
        // SAFETY: the caller's promise; arguments are never null.
        unsafe { Bound::from_borrowed_ptr(py, *self.args.add(index)) }
    }

    /// The arguments as a tuple and a dictionary.
    fn packed(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyTuple>, Option<Bound<'py, PyDict>>)> {
        let count = self.positional();
        // SAFETY: these are the positions that there are.
        let args: Vec<_> = (0..count).map(|index| unsafe { self.get(py, index) }).collect();
        let args = PyTuple::new(py, args)?;
        let Some(names) = &self.names else { return Ok((args, None)) };
        let kwargs = PyDict::new(py);
        for (index, name) in names.iter().enumerate() {
            // SAFETY: each name has its argument after those by position.
            kwargs.set_item(name, unsafe { self.get(py, count + index) })?;
        }
        Ok((args, Some(kwargs)))
    }
}

/// What makes a declaration one that the short way serves.
pub(super) fn is_simple(core: &Core) -> bool {
    let options = &core.options;
    let same = |framework: &Framework| framework.memory_type == options.input.memory_type;
    core.kind == Kind::Plain
        && options.is_plain_input()
        && options.contract.is_none()
        && same(options.execution)
        && matches!(options.output, Output::Fixed(output) if same(output))
}

fn run<'py>(declared: &Bound<'py, Declared>, given: &Given<'py>) -> PyResult<Bound<'py, PyAny>> {
    let (py, core) = (declared.py(), &declared.get().core);
    if core.simple {
        let policy = core.options.policy(py);
        if !matches!(policy.conversion, Conversion::Force(_))
            && let Some(fits) = look(py, core, given)
        {
            return call(py, core, given, policy, fits);
        }
    }
    let (args, kwargs) = given.packed(py)?;
    Declared::__call__(declared, &args, kwargs.as_ref())
}

/// What a look at arguments that fit has found.
struct Fits<'py> {
    lead: Option<Bound<'py, PyAny>>,
    watched: SmallVec<[(Bound<'py, PyAny>, i64); 2]>,
}

/// Looks at each argument; `None` where one does not fit, or a device has to be made current.
#[inline]
fn look<'py>(py: Python<'py>, core: &Core, given: &Given<'py>) -> Option<Fits<'py>> {
    let framework = core.options.input;
    if framework.memory != Memory::Host && !hosted(py, framework) {
        return None;
    }
    let watch = framework.version.is_some() && !core.options.ladder.is_empty();
    let mut fits = Fits { lead: None, watched: SmallVec::new() };
    for index in 0..given.positional() {
        if !core.parameters.positional(index).0 {
            continue;
        }
        // SAFETY: these are the positions that there are.
        let value = unsafe { given.get(py, index) };
        match detect::class_of(&value) {
            Some(class) if class.framework.memory_type != framework.memory_type => return None,
            Some(class) => {
                if watch && matches!(class.role, Role::Array) {
                    let version = version(framework, &value);
                    fits.watched.extend(version.map(|version| (value.clone(), version)));
                }
                fits.lead.get_or_insert(value);
            }
            None if is_container(&value) => return None,
            None => {}
        }
    }
    let Some(names) = &given.names else { return Some(fits) };
    for (index, name) in names.iter_borrowed().enumerate() {
        // SAFETY: each name has its argument after those by position.
        let value = unsafe { given.get(py, given.positional() + index) };
        let name = name.cast::<PyString>().ok()?;
        // Which array leads, if one is given by name, is a question for the long way.
        if core.parameters.is_added(&name)
            || detect::class_of(&value).is_some()
            || is_container(&value)
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
    match live::known(py, framework) {
        Some(live) => live.accelerators(py) == 0,
        // What is not known yet is found out on the long way.
        None => !streams::concern(framework),
    }
}

fn call<'py>(
    py: Python<'py>,
    core: &Core,
    given: &Given<'py>,
    policy: Policy,
    fits: Fits<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the arguments are those that Python gave, and are handed on as they are, with the
    // permission that came with them.
    let called = unsafe {
        let function = core.function.as_ptr();
        let names = given.names.as_ref().map_or(std::ptr::null_mut(), Bound::as_ptr);
        let result = ffi::PyObject_Vectorcall(function, given.args, given.nargsf, names);
        Bound::from_owned_ptr_or_err(py, result)
    };
    match called {
        Ok(result) => {
            let lead = fits.lead.as_ref();
            if result::is_done(core.options.input, policy, lead, &result) {
                return Ok(result);
            }
            let (args, kwargs) = given.packed(py)?;
            Call::new(py, core, &args, kwargs.as_ref(), policy).finish(result)
        }
        Err(error) if core.options.ladder.is_empty() || oom::framework_of(py, &error).is_none() => {
            Err(error)
        }
        Err(error) => {
            let (args, kwargs) = given.packed(py)?;
            let call = Call::new(py, core, &args, kwargs.as_ref(), policy);
            let written = fits.watched.iter().any(|(array, before)| {
                version(core.options.input, array).is_none_or(|now| now != *before)
            });
            // The array is not kept alive by the look at it.
            drop(fits);
            let raw = ladder::climb(&call, &call.slots, Failed { error, written })?;
            call.finish(raw)
        }
    }
}
