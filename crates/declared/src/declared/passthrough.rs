//! Calls whose arguments are passed through to the function as they are.
//!
//! Most arguments fit already. They are looked at where the caller has put them, without a tuple or a
//! dictionary, and the function is called with them. All other calls take the general way,
//! [`Declared::call_generally`].

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use smallvec::SmallVec;

use super::arguments::{self, ArgumentSlot, UNCOUNTED, WRITTEN, holds_wrapper};
use super::call::{Call, FailedAttempt};
use super::definition::{Definition, Passthrough};
use super::result::{self, ResultScope};
use super::signature::ArrayUsage;
use super::{Declared, ladder};
use crate::policy::{Conversion, Policy};
use arraybridge_runtime::convert::{self, trace};
use arraybridge_runtime::framework::detect::{self, Role};
use arraybridge_runtime::framework::generated::MemoryType;
use arraybridge_runtime::framework::loaded;
use arraybridge_runtime::framework::oom;
use arraybridge_runtime::framework::spec::{Framework, Memory};
use arraybridge_runtime::framework::writes::{has_changed, version};
use arraybridge_runtime::interpreter::classes;
use arraybridge_runtime::interpreter::containers::Container;
use arraybridge_runtime::interpreter::stack;
use arraybridge_runtime::interpreter::vectorcall::{self, Given, vectorcall_class};
use arraybridge_runtime::memory::numpy_array;

vectorcall_class!(Declared, vectorcall, call);

/// Calls a declared function: passes the arguments through if possible, else takes the general way.
pub fn call<'py>(
    declared: &Bound<'py, Declared>,
    given: &Given<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    stack::expect_room()?;
    Declared::traced(declared, || dispatch(declared, given))
}

#[inline]
fn dispatch<'py>(
    declared: &Bound<'py, Declared>,
    given: &Given<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, definition) = (declared.py(), declared.get().definition());
    match definition.passthrough {
        // The general way knows whether to begin with a part of the lead.
        _ if definition.room.was_short() => {}
        _ if definition.is_differentiable() => {}
        _ if has_wrapper(definition, given) => {}
        Some(Passthrough::Unchecked) if !has_added_keyword(definition, given) => {
            let result = given.pass(definition.function.bind(py));
            return result.or_else(|error| recover_unchecked(declared, given, error));
        }
        Some(Passthrough::Checked) => {
            let policy = definition.options.policy(py);
            if !matches!(policy.conversion, Conversion::Force(_))
                && let Some(checked) = check(py, definition, given)
            {
                if trace::is_tracing() {
                    Declared::note_lead(&found(declared, given, policy)?);
                }
                return call_checked(declared, given, policy, checked);
            }
        }
        _ => {}
    }
    let (args, kwargs) = given.packed(py)?;
    Declared::call_generally(declared, &args, kwargs.as_ref())
}

/// Returns whether a keyword argument is one that the declaration adds.
fn has_added_keyword(definition: &Definition, given: &Given<'_, '_>) -> bool {
    let is_added = |name: Borrowed<'_, '_, PyAny>| {
        name.cast::<PyString>().is_ok_and(|name| definition.parameters.is_added(&name))
    };
    given.names().is_some_and(|names| names.iter_borrowed().any(is_added))
}

/// Returns whether an argument has an array inside that the function would open by itself, and whose labels its
/// result would lose.
#[inline]
fn has_wrapper(definition: &Definition, given: &Given<'_, '_>) -> bool {
    let options = &definition.options;
    options.rewraps_opened()
        && given.all().iter().any(|value| !is_plain(value) && holds_wrapper(value, options))
}

/// Returns whether an argument is an array of a framework or a plain value, as far as this is seen without Python. A
/// subclass of NumPy's array may have a unit.
#[inline]
fn is_plain(value: &Bound<'_, PyAny>) -> bool {
    numpy_array::plain_array(value).is_some()
        || (classes::is_builtin(value) && !value.is_exact_instance_of::<PyList>())
        || detect::recent_class_of(value).is_ok_and(|class| {
            class.is_some_and(|class| class.framework.memory_type != MemoryType::Numpy)
        })
}

/// The calling convention of functions with [`Passthrough::Unchecked`]. Without keyword arguments the
/// call is forwarded in C, and Rust deals only with the error that it may raise.
///
/// # Safety
///
/// The conditions of Python's `vectorcallfunc`, with an instance of [`Declared`] as `callable`.
pub unsafe extern "C" fn vectorcall_unchecked(
    callable: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    nargsf: usize,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: Python calls this with the interpreter attached and with a callable, arguments and names
    // that are valid until it returns, which is what `serve` and `PyObject_Vectorcall` need. Only
    // instances of `Declared` have this function in their vectorcall field, so the cast is right, and
    // `callable` keeps its definition and thereby the function alive. The arguments are those of `Given`.
    // PyO3 need not know about the attachment before `serve`, since no `Py` is dropped until then.
    unsafe {
        let py = Python::assume_attached();
        let declared = Borrowed::from_ptr(py, callable).cast_unchecked::<Declared>();
        let definition = declared.get().definition();
        if !names.is_null()
            || !stack::has_room()
            || trace::is_tracing()
            || definition.room.was_short()
            || definition.is_differentiable()
            || (definition.options.rewraps_opened()
                && !Given::of_call(py, args, nargsf, names)
                    .all()
                    .iter()
                    .all(|value| is_plain(value)))
        {
            return vectorcall::serve(callable, args, nargsf, names, call);
        }
        let function = definition.function.as_ptr();
        let result = ffi::PyObject_Vectorcall(function, args, nargsf, names);
        if !result.is_null() {
            return result;
        }
        // Before `serve`, which may call Python code.
        let error = PyErr::fetch(py);
        vectorcall::serve(callable, args, nargsf, names, |declared: &Bound<'_, Declared>, given| {
            recover_unchecked(declared, given, error)
        })
    }
}

/// The call for what was given, with its arrays.
fn found<'a, 'py>(
    declared: &'a Bound<'py, Declared>,
    given: &Given<'_, 'py>,
    policy: Policy,
) -> PyResult<Call<'a, 'py>> {
    let (args, kwargs) = given.packed(declared.py())?;
    let mut call = Call::new(declared, &args, kwargs.as_ref(), policy);
    call.find_arrays(false)?;
    Ok(call)
}

/// Retries a failed call on the rungs of the ladder, and finishes its result.
fn retried<'py>(call: &Call<'_, 'py>, failed: FailedAttempt) -> PyResult<Bound<'py, PyAny>> {
    let (result, _) = ladder::retry_call(call, &call.slots, failed, ResultScope::Call)?;
    call.finish(result, ResultScope::Call, Ok)
}

/// Retries a call that failed with `error`, if memory ran out.
#[cold]
fn recover_unchecked<'py>(
    declared: &Bound<'py, Declared>,
    given: &Given<'_, 'py>,
    error: PyErr,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, definition) = (declared.py(), declared.get().definition());
    if !is_recoverable(py, definition, &error) {
        return Err(error);
    }
    let call = found(declared, given, definition.options.policy(py))?;
    let obstacle = call.slots.iter().any(ArgumentSlot::is_written).then_some(WRITTEN);
    retried(&call, FailedAttempt { error, obstacle, writes: None })
}

/// Returns whether memory ran out and the declaration allows a retry. Another error may get a note.
fn is_recoverable(py: Python<'_>, definition: &Definition, error: &PyErr) -> bool {
    let is_oom = definition.options.retries() && oom::framework_of(py, error, None).is_some();
    if !is_oom {
        ladder::note_gap(py, definition, error);
    }
    is_oom
}

/// The findings about arguments that fit.
#[derive(Default)]
struct CheckedArguments<'a, 'py> {
    /// The first array.
    lead: Option<Borrowed<'a, 'py, PyAny>>,
    /// Arrays that the function could write to, with their versions.
    versions: SmallVec<[(Borrowed<'a, 'py, PyAny>, i64); 2]>,
    /// True if the function opens an array to write to it.
    written: bool,
    /// True if an array has no count of writes, though its framework has one for others.
    uncounted: bool,
}

/// Looks at each argument; `None` if one does not fit, or if a device has to be made current.
#[inline]
fn check<'a, 'py: 'a>(
    py: Python<'py>,
    definition: &Definition,
    given: &Given<'a, 'py>,
) -> Option<CheckedArguments<'a, 'py>> {
    let framework = definition.options.input;
    if framework.memory != Memory::Host && !has_host_only(py, framework) {
        return None;
    }
    if trace::set_by_configure() == Some(true) && definition.options.copy.is_none() {
        return None;
    }
    let records = framework.version.is_some() && definition.options.counts_writes();
    let mut checked = CheckedArguments::default();
    let (positional, named) = given.all().split_at(given.positional());
    for (index, &value) in positional.iter().enumerate() {
        let (usage, _) = definition.parameters.positional(index);
        if usage == ArrayUsage::Ignored {
            continue;
        }
        match detect::class_of(&value) {
            Some(_) if usage.is_opened() => {
                checked.written |= usage == ArrayUsage::Written;
                checked.lead.get_or_insert(value);
            }
            Some(class) if !class.framework.is(framework) => return None,
            // The function may have to be translated.
            Some(class) if framework.translate.is_some() && !matches!(class.role, Role::Array) => {
                return None;
            }
            Some(class) => {
                if records && matches!(class.role, Role::Array) {
                    let version = version(framework, &value);
                    checked.uncounted |= version.is_none();
                    checked.versions.extend(version.map(|version| (value, version)));
                }
                checked.lead.get_or_insert(value);
            }
            None if Container::of(&value).is_some()
                || convert::is_like_array(&value)
                || arguments::is_number(definition, &value) =>
            {
                return None;
            }
            None => {}
        }
    }
    fit_by_name(definition, given, named).then_some(checked)
}

/// Returns whether none of the keyword arguments concerns the declaration. Finding the first array
/// among them is left to the general way.
#[inline]
fn fit_by_name<'py>(
    definition: &Definition,
    given: &Given<'_, 'py>,
    values: &[Borrowed<'_, 'py, PyAny>],
) -> bool {
    let Some(names) = given.names() else { return true };
    names.iter_borrowed().zip(values).all(|(name, value)| {
        name.cast::<PyString>().is_ok_and(|name| !definition.parameters.is_added(&name))
            && detect::class_of(value).is_none()
            && Container::of(value).is_none()
            && !convert::is_like_array(value)
            && !arguments::is_number(definition, value)
    })
}

/// Returns whether a framework has no accelerator on this machine, so that there is no device to
/// choose.
fn has_host_only(py: Python<'_>, framework: &'static Framework) -> bool {
    match loaded::if_loaded(py, framework) {
        Some(loaded) => loaded.accelerators() == 0,
        // The general way loads the framework and finds out.
        None => !framework.enters_devices(),
    }
}

fn call_checked<'py>(
    declared: &Bound<'py, Declared>,
    given: &Given<'_, 'py>,
    policy: Policy,
    checked: CheckedArguments<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, definition) = (declared.py(), declared.get().definition());
    match given.pass(definition.function.bind(py)) {
        Ok(result) => {
            let lead = checked.lead.as_deref();
            if result::is_finished(&definition.options, policy, lead, &result) {
                return Ok(result);
            }
            found(declared, given, policy)?.finish(result, ResultScope::Call, Ok)
        }
        Err(error) if !is_recoverable(py, definition, &error) => Err(error),
        Err(error) => {
            let call = found(declared, given, policy)?;
            let input = definition.options.input;
            let mut versions = checked.versions.iter();
            let changed = versions.any(|(array, before)| has_changed(input, array, *before));
            let written = (checked.written || changed).then_some(WRITTEN);
            let obstacle = written.or(checked.uncounted.then_some(UNCOUNTED));
            retried(&call, FailedAttempt { error, obstacle, writes: None })
        }
    }
}
