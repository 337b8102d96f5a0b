//! Declared functions: the decorator says what memory a function works on, and conversion, element
//! types, streams and the way out of an exhausted memory follow from that.
//!
//! A call is `finish( recover( scopes( fit -> function ) ) )`: [`arguments`] finds the arrays and
//! brings them to the declared framework, [`streams`](crate::cuda::streams) orders the work,
//! [`ladder`](crate::declared::ladder) retries, and [`result`] gives the result its element type and its
//! framework. Where every argument fits already, that is a look at the class of each.

pub mod arguments;
mod decorator;
mod fast;
pub mod ladder;
pub mod names;
mod options;
mod result;
mod scope;
mod signature;
mod steps;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};

use crate::framework::spec::Framework;
use crate::interpreter::error::{Error, Result};
use crate::interpreter::vectorcall::{self, vectorcall_class};
use crate::policy::Policy;
use crate::slices;
use arguments::{Aim, Fitted, Slots, Watched};
pub use decorator::{Decorator, declare, memory_types};
use fast::Short;
pub use options::{Options, Output};
use result::Of;
use signature::{Extras, Parameters};

/// What calling a function gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Its result.
    Plain,
    /// A coroutine.
    Coroutine,
    /// A generator.
    Generator,
    /// An asynchronous generator.
    AsyncGenerator,
}

/// How a function in a class is bound to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Binding {
    /// To the object that it is looked up on.
    Instance,
    /// To the class.
    Class,
    /// Not at all.
    Static,
}

/// A function and its declaration.
pub struct Core {
    /// The function.
    pub function: Py<PyAny>,
    /// The declaration.
    pub options: Options,
    /// The function's name in messages.
    pub name: String,
    given: Py<PyDict>,
    parameters: Parameters,
    kind: Kind,
    binding: Binding,
    /// How arguments that fit may be handed on as they are.
    short: Option<Short>,
}

/// A function that is called with arrays of any framework and gets those that it is declared for.
///
/// The decorators make it. It is called as the function is, with two more keywords:
/// `dtype_conversion` is the element type of this call's result, as in `dtype_policy`, and
/// `slice_by_slice=True` calls the function for each 2-D slice of the first array and stacks the
/// results, as `process_slices` does. `__wrapped__` is the function; `input_memory_type`,
/// `output_memory_type` and `execution_memory_type` are names of frameworks.
///
/// A call raises what the function raises, what `convert` raises for an argument or a result that
/// cannot be converted, and `ValueError` for a result that does not keep the contract. A default
/// value of a parameter is handed to the function as it is.
///
/// Examples
/// --------
/// >>> import numpy, arraybridge
/// >>> @arraybridge.numpy
/// ... def half(image):
/// ...     return image / 2
/// >>> half(numpy.array([100, 500], dtype="uint16"))
/// array([ 50, 250], dtype=uint16)
/// >>> half(numpy.array([1, 2], dtype="uint16"), dtype_conversion="native")
/// array([0.5, 1. ])
#[pyclass(frozen, dict, weakref, module = "arraybridge", name = "Declared")]
pub struct Declared {
    vectorcall: vectorcall::Slot<Declared>,
    core: Core,
}

vectorcall_class!(Declared, vectorcall, fast::run);

/// One call of a declared function.
pub struct Call<'a, 'py> {
    /// The interpreter.
    pub py: Python<'py>,
    /// The function and its declaration.
    pub core: &'a Core,
    /// What the caller gave by position.
    pub args: Bound<'py, PyTuple>,
    /// What the caller gave by name, without the keywords that the declaration adds.
    pub kwargs: Option<Bound<'py, PyDict>>,
    /// The arrays in both.
    pub slots: Slots<'py>,
    /// What the result's element type should be.
    pub policy: Policy,
}

/// How an attempt differs from a plain call.
#[derive(Default)]
pub struct Mode<'py> {
    /// Where the arguments go.
    pub aim: Option<Aim>,
    /// What is called.
    pub function: Option<Bound<'py, PyAny>>,
    /// A context manager around the call.
    pub scope: Option<Bound<'py, PyAny>>,
}

/// An attempt that failed.
pub struct Failed {
    /// What was raised.
    pub error: PyErr,
    /// Whether the function had written to an argument by then.
    pub written: bool,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed { error: error.into(), written: false }
    }
}

impl From<PyErr> for Failed {
    fn from(error: PyErr) -> Failed {
        Failed { error, written: false }
    }
}

impl<'a, 'py> Call<'a, 'py> {
    #[inline]
    fn new(
        py: Python<'py>,
        core: &'a Core,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
        policy: Policy,
    ) -> Call<'a, 'py> {
        let slots = arguments::scan(core, args, kwargs);
        Call { py, core, args: args.clone(), kwargs: kwargs.cloned(), slots, policy }
    }

    /// Calls the function once, with the arrays of `slots`; gives back its result, and what it could
    /// have written to.
    pub fn attempt(
        &self,
        slots: &Slots<'py>,
        mode: &Mode<'py>,
    ) -> Result<(Bound<'py, PyAny>, Watched<'py>), Failed> {
        let core = self.core;
        let fitted = arguments::fit(core, &self.args, self.kwargs.as_ref(), slots, mode.aim)?;
        let function = mode.function.as_ref().unwrap_or(core.function.bind(self.py));
        let framework = core.options.execution;
        let run = || -> PyResult<Bound<'py, PyAny>> {
            let result = function.call(&fitted.args, fitted.kwargs.as_ref())?;
            if fitted.wait {
                result::wait(framework, &result)?;
            }
            Ok(result)
        };
        let called = match &mode.scope {
            None if core.kind == Kind::Plain => self.scoped(slots, &fitted, run),
            None => run(),
            Some(scope) => crate::framework::device::entered(scope, run),
        };
        match called {
            Ok(result) => Ok((result, fitted.watched)),
            Err(error) => {
                // The memory that a function opens itself is not counted by anybody.
                let opened = slots.iter().any(arguments::Slot::is_written);
                let written = opened || fitted.watched.is_written(core.options.input);
                Err(Failed { error, written })
            }
        }
    }

    #[inline]
    fn scoped<T>(
        &self,
        slots: &Slots<'py>,
        fitted: &Fitted<'py>,
        body: impl FnOnce() -> PyResult<T>,
    ) -> PyResult<T> {
        let framework = self.core.options.execution;
        if !scope::concern(framework) {
            return body();
        }
        scope::within(self.py, framework, fitted.device, slots, body)
    }

    /// Calls the function, and again by the rungs of the ladder when its memory runs out.
    #[inline]
    pub fn recover(&self, slots: &Slots<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self.attempt(slots, &Mode::default()) {
            Ok((result, _)) => Ok(result),
            Err(failed) => ladder::climb(self, slots, failed),
        }
    }

    /// Calls the function for each slice of the lead along its first axis.
    fn slice_by_slice(&self) -> Result<Bound<'py, PyAny>> {
        let Some(lead) = self.slots.first() else {
            let text = "slice_by_slice needs an array among the arguments".to_owned();
            return Err(Error::Value(text));
        };
        self.check_sliced(&self.slots, 0)?;
        slices::process(self.py, &lead.value, &mut |index, slice| {
            let part = |array: &Bound<'py, PyAny>| Ok(array.get_item(index)?);
            let slots = self.with_parts(&self.slots, slice, &part)?;
            result::finish(self, self.recover(&slots)?, Of::Slice)
        })
    }

    /// The arrays of the call with a part of the lead, and of those that go with it.
    pub fn with_parts(
        &self,
        whole: &Slots<'py>,
        lead: Bound<'py, PyAny>,
        part: &dyn Fn(&Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>>,
    ) -> Result<Slots<'py>> {
        let no_array = || Error::Value("a slice of the first array is no array".to_owned());
        let mut slots = Slots::new();
        for (index, slot) in whole.iter().enumerate() {
            slots.push(match index {
                0 => slot.with(lead.clone()).ok_or_else(no_array)?,
                _ if self.is_sliced(slot) => slot.with(part(&slot.value)?).ok_or_else(no_array)?,
                _ => slot.same(),
            });
        }
        Ok(slots)
    }

    /// Refuses arrays that are cut together and differ in length.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] with both lengths.
    pub fn check_sliced(&self, slots: &Slots<'py>, axis: usize) -> Result<()> {
        let mut lengths = slots
            .iter()
            .enumerate()
            .filter(|(index, slot)| *index == 0 || self.is_sliced(slot))
            .filter_map(|(_, slot)| arguments::length_along(&slot.value, axis));
        let Some(lead) = lengths.next() else { return Ok(()) };
        match lengths.find(|length| *length != lead) {
            None => Ok(()),
            Some(other) => Err(Error::Value(format!(
                "arrays that are sliced together have the lengths {lead} and {other} along axis {axis}"
            ))),
        }
    }

    fn is_sliced(&self, slot: &arguments::Slot<'py>) -> bool {
        let name = match &slot.place {
            arguments::Place::Positional(index) => {
                self.core.parameters.name_of(*index).map(str::to_owned)
            }
            arguments::Place::Keyword(key) => Some(key.to_string()),
        };
        name.is_some_and(|name| self.core.options.sliced.contains(&name))
    }

    /// The framework that results go to, if it is known.
    fn output(&self) -> Option<&'static Framework> {
        match self.core.options.output {
            Output::Fixed(framework) => Some(framework),
            Output::Input => self.slots.first().map(|lead| lead.class.framework),
        }
    }

    /// Gives a result its element type and its framework, and tests the contract.
    #[inline]
    fn finish(&self, result: Bound<'py, PyAny>, of: Of) -> PyResult<Bound<'py, PyAny>> {
        let result = result::finish(self, result, of)?;
        let Some(contract) = &self.core.options.contract else { return Ok(result) };
        let answer = contract.bind(self.py).call1((&result,))?;
        // A contract that asserts gives nothing back.
        if !answer.is_none() && !answer.is_truthy()? {
            let text = format!("the result of {} does not keep its contract", self.core.name);
            return Err(PyValueError::new_err(text));
        }
        Ok(result)
    }
}

#[pymethods]
impl Declared {
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        slf: &Bound<'py, Self>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, core) = (slf.py(), &slf.get().core);
        let mut policy = core.options.policy(py);
        let mut extras =
            Extras { slice_by_slice: core.options.slice_by_slice, ..Extras::default() };
        if let Some(kwargs) = kwargs {
            // The dictionary is this call's own.
            extras = core.parameters.take_extras(kwargs, &core.options)?;
            let conversion = extras.dtype_conversion.as_ref();
            policy = Policy::from_py(conversion, None, policy)?;
        }
        let kwargs = kwargs.filter(|kwargs| !kwargs.is_empty());
        let call = Call::new(py, core, args, kwargs, policy);
        if core.kind != Kind::Plain {
            if extras.slice_by_slice {
                let text = "slice_by_slice is for functions that return their result";
                return Err(PyTypeError::new_err(text));
            }
            return steps::start(slf, call);
        }
        match extras.slice_by_slice {
            true => call.finish(call.slice_by_slice()?, Of::Stack),
            false => call.finish(call.recover(&call.slots)?, Of::Whole),
        }
    }

    fn __get__<'py>(
        slf: &Bound<'py, Self>,
        instance: &Bound<'py, PyAny>,
        owner: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let to = match slf.get().core.binding {
            Binding::Static => None,
            Binding::Class if instance.is_none() => owner.cloned(),
            Binding::Class => {
                Some(owner.cloned().unwrap_or_else(|| instance.get_type().into_any()))
            }
            Binding::Instance => Some(instance.clone()).filter(|instance| !instance.is_none()),
        };
        let Some(to) = to else { return Ok(slf.clone().into_any()) };
        method_class(slf.py())?.call1((slf, to))
    }

    /// By qualified name where that leads back here, else the function and its options.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        if let Some(name) = resolves(slf) {
            return Ok(name);
        }
        let core = &slf.get().core;
        let function = core.function.bind(py);
        let function = match core.binding {
            Binding::Instance => function.clone(),
            Binding::Class => py.import("builtins")?.getattr("classmethod")?.call1((function,))?,
            Binding::Static => {
                py.import("builtins")?.getattr("staticmethod")?.call1((function,))?
            }
        };
        let make = py.import("arraybridge._core")?.getattr("_declare")?;
        let arguments = (function, core.options.execution.name, core.given.bind(py));
        Ok((make, arguments).into_pyobject(py)?.into_any())
    }

    fn __repr__(&self) -> String {
        format!("<{} declared for {}>", self.core.name, self.core.options.execution.name)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let core = &self.core;
        visit.call(&core.function)?;
        visit.call(&core.given)?;
        visit.call(&core.options.host)?;
        visit.call(&core.options.contract)
    }
}

/// `types.MethodType`.
fn method_class(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = CLASS.get_or_try_init(py, || -> PyResult<Py<PyAny>> {
        Ok(py.import("types")?.getattr("MethodType")?.unbind())
    })?;
    Ok(class.bind(py))
}

/// The qualified name, where the module has this very object under it.
fn resolves<'py>(declared: &Bound<'py, Declared>) -> Option<Bound<'py, PyAny>> {
    let py = declared.py();
    let name = declared.getattr(intern!(py, "__qualname__")).ok()?;
    let module: String = declared.getattr(intern!(py, "__module__")).ok()?.extract().ok()?;
    let modules = py.import("sys").ok()?.getattr("modules").ok()?;
    let module = modules.get_item(module).ok()?;
    let path: String = name.extract().ok()?;
    let found = path.split('.').try_fold(module, |object, part| object.getattr(part)).ok()?;
    found.is(declared).then_some(name)
}

impl Declared {
    /// The function and its declaration.
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// Declares a function.
    ///
    /// # Errors
    ///
    /// [`Error::Type`] for what cannot be called, and what [`Options::read`] finds.
    pub fn new<'py>(
        function: &Bound<'py, PyAny>,
        execution: &'static Framework,
        given: &Bound<'py, PyDict>,
    ) -> Result<Bound<'py, Declared>> {
        let py = function.py();
        let (function, binding) = unbound(function)?;
        if !function.is_callable() {
            let class = function.get_type().name()?;
            return Err(Error::Type(format!("a declaration is for a function, not for {class}")));
        }
        let options = Options::read(execution, given)?;
        let (parameters, shown) = Parameters::read(&function, &options)?;
        let kind = kind_of(&function)?;
        let name = name_of(&function)?;
        let attributes = Attributes::of(&options, given)?;
        let mut core = Core {
            function: function.clone().unbind(),
            options,
            name,
            given: given.copy()?.unbind(),
            parameters,
            kind,
            binding,
            short: None,
        };
        core.short = Short::of(&core);
        let vectorcall = match core.short {
            // SAFETY: it hands on what Python gives, and is for this class.
            Some(Short::Blind) => unsafe { vectorcall::Slot::with_function(fast::hand_on) },
            _ => vectorcall::Slot::new(),
        };
        let declared = Bound::new(py, Declared { vectorcall, core })?;
        static INSTALLED: PyOnceLock<()> = PyOnceLock::new();
        INSTALLED.get_or_init(py, || vectorcall::install(&declared));
        dress(&declared, &function, kind, shown, attributes)?;
        Ok(declared)
    }
}

/// The function inside a `staticmethod` or a `classmethod`.
fn unbound<'py>(function: &Bound<'py, PyAny>) -> Result<(Bound<'py, PyAny>, Binding)> {
    let builtins = function.py().import("builtins")?;
    for (name, binding) in [("staticmethod", Binding::Static), ("classmethod", Binding::Class)] {
        if function.is_instance(&builtins.getattr(name)?)? {
            return Ok((function.getattr("__func__")?, binding));
        }
    }
    Ok((function.clone(), Binding::Instance))
}

/// What messages call a function. An object that is called is named by its class, a partial by its
/// function: their own words may hold whole arrays.
fn name_of(function: &Bound<'_, PyAny>) -> PyResult<String> {
    let py = function.py();
    let partial = py.import("functools")?.getattr("partial")?;
    let mut named = function.clone();
    while named.is_instance(&partial)? {
        named = named.getattr("func")?;
    }
    let name = named.getattr(intern!(py, "__qualname__")).and_then(|name| name.extract());
    let class = |_| Ok(named.get_type().qualname()?.to_string());
    name.or_else(class)
}

/// What a call gives, by the function or, for an object, by the method that calls it.
fn kind_of(function: &Bound<'_, PyAny>) -> Result<Kind> {
    let inspect = function.py().import("inspect")?;
    let method = function.get_type().getattr(intern!(function.py(), "__call__"))?;
    let is = |name: &str| -> PyResult<bool> {
        Ok(inspect.call_method1(name, (function,))?.is_truthy()?
            || inspect.call_method1(name, (&method,))?.is_truthy()?)
    };
    Ok(if is("iscoroutinefunction")? {
        Kind::Coroutine
    } else if is("isasyncgenfunction")? {
        Kind::AsyncGenerator
    } else if is("isgeneratorfunction")? {
        Kind::Generator
    } else {
        Kind::Plain
    })
}

/// What upstream's callers read from a declared function.
struct Attributes<'py> {
    input: &'static str,
    output: &'static str,
    execution: &'static str,
    contract: Option<Bound<'py, PyAny>>,
}

impl<'py> Attributes<'py> {
    fn of(options: &Options, given: &Bound<'py, PyDict>) -> Result<Attributes<'py>> {
        let output = match options.output {
            Output::Fixed(framework) => framework.name,
            Output::Input => "input",
        };
        let (input, execution) = (options.input.name, options.execution.name);
        Ok(Attributes { input, output, execution, contract: given.get_item("contract")? })
    }
}

/// Makes the declared function look like the function.
fn dress<'py>(
    declared: &Bound<'py, Declared>,
    function: &Bound<'py, PyAny>,
    kind: Kind,
    shown: Option<Bound<'py, PyAny>>,
    attributes: Attributes<'py>,
) -> Result<()> {
    const COPIED: [&str; 8] = [
        "__module__",
        "__name__",
        "__qualname__",
        "__doc__",
        "__annotations__",
        // By these `inspect` tells what kind of function it is.
        "__code__",
        "__defaults__",
        "__kwdefaults__",
    ];
    let py = declared.py();
    if let Ok(dict) = function.getattr(intern!(py, "__dict__")) {
        declared.getattr(intern!(py, "__dict__"))?.call_method1("update", (dict,))?;
    }
    for name in COPIED {
        if let Ok(value) = function.getattr(name) {
            declared.setattr(name, value)?;
        }
    }
    declared.setattr("__wrapped__", function)?;
    if let Some(shown) = shown {
        declared.setattr("__signature__", shown)?;
    }
    declared.setattr("input_memory_type", attributes.input)?;
    declared.setattr("output_memory_type", attributes.output)?;
    declared.setattr("execution_memory_type", attributes.execution)?;
    if let Some(contract) = attributes.contract {
        declared.setattr("contract", contract)?;
    }
    if kind == Kind::Coroutine
        && let Ok(mark) = py.import("inspect")?.getattr("markcoroutinefunction")
    {
        mark.call1((declared,))?;
    }
    Ok(())
}
