//! Declared functions as Python sees them.

use std::cell::RefCell;

use pyo3::exceptions::PyTypeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};

use super::arguments;
use super::attributes::set_attributes;
use super::call::Call;
use super::definition::{Binding, Definition, FunctionKind};
use super::gradients;
use super::options::Options;
use super::passthrough::{self, Passthrough};
use super::python_function;
use super::result::ResultScope;
use super::signature::AddedKeywords;
use super::{names, steps};
use crate::convert::record::Record;
use crate::convert::trace;
use crate::framework::spec::Framework;
use crate::interpreter::error::{Result, first_line};
use crate::interpreter::vectorcall::{self, vectorcall_class};
use crate::interpreter::{park, stack};
use crate::policy::Policy;

/// A function that takes arrays of any framework and receives those of the framework that it is
/// declared for.
///
/// The decorators create it. From a Python function they make a Python function that calls it. It is
/// called like the function, with two more keywords. `dtype_conversion` is the dtype of this call's result, as in `dtype_policy`. `slice_by_slice=True`
/// calls the function for each 2-D slice of the first array and stacks the results, as
/// `process_slices` does. `__wrapped__` is the function; `input_memory_type`, `output_memory_type` and
/// `execution_memory_type` are names of frameworks.
///
/// A call raises what the function raises, what `convert` raises for an argument or a result that
/// cannot be converted, and `ValueError` for a result that violates the contract. The default value
/// of a parameter is passed to the function as it is.
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
    definition: Definition,
}

vectorcall_class!(Declared, vectorcall, passthrough::call);

impl Declared {
    /// Declares a function: a Python function becomes a Python function, anything else a [`Declared`].
    ///
    /// # Errors
    ///
    /// The errors of [`Definition::new`].
    pub fn declare<'py>(
        function: &Bound<'py, PyAny>,
        execution: &'static Framework,
        keywords: &Bound<'py, PyDict>,
    ) -> Result<Bound<'py, PyAny>> {
        let (definition, signature) = Definition::new(function, execution, keywords)?;
        let is_plain = definition.kind == FunctionKind::Plain;
        let declared = Declared::new(function.py(), definition)?;
        let shown = if is_plain && python_function::is_one(function)? {
            python_function::calling(&declared, function)?
        } else {
            declared.clone().into_any()
        };
        set_attributes(&shown, declared.get().definition(), signature)?;
        if !shown.is(&declared) {
            shown.setattr("defvjp", declared.getattr("defvjp")?)?;
        }
        Ok(shown)
    }

    fn new(py: Python<'_>, definition: Definition) -> Result<Bound<'_, Declared>> {
        let vectorcall = match definition.passthrough {
            // SAFETY: the function implements the vectorcall protocol for instances of `Declared`.
            Some(Passthrough::Unchecked) => unsafe {
                vectorcall::Slot::with_function(passthrough::vectorcall_unchecked)
            },
            _ => vectorcall::Slot::new(),
        };
        let declared = Bound::new(py, Declared { vectorcall, definition })?;
        static INSTALLED: PyOnceLock<()> = PyOnceLock::new();
        INSTALLED.get_or_init(py, || vectorcall::install(&declared));
        Ok(declared)
    }

    /// The object that a declared function is, or that it calls; `None` for anything else.
    pub fn of<'py>(function: &Bound<'py, PyAny>) -> Option<Bound<'py, Declared>> {
        let called = || python_function::called(function);
        function.cast::<Declared>().cloned().ok().or_else(called)
    }

    /// The function and its declaration.
    #[inline]
    pub(super) fn definition(&self) -> &Definition {
        &self.definition
    }

    /// The framework that the function works on, and the function.
    pub fn parts<'py>(&self, py: Python<'py>) -> (&'static Framework, Bound<'py, PyAny>) {
        let Definition { function, options, .. } = &self.definition;
        (options.execution, function.bind(py).clone())
    }
}

/// The keywords that a declaration adds, as the caller gave them.
#[cold]
fn given_again<'py>(
    py: Python<'py>,
    added: Option<AddedKeywords<'py>>,
    options: &Options,
) -> PyResult<Bound<'py, PyDict>> {
    let keywords = PyDict::new(py);
    if let Some(added) = added {
        if let Some(conversion) = added.dtype_conversion {
            keywords.set_item("dtype_conversion", conversion)?;
        }
        if added.slice_by_slice != options.slice_by_slice {
            keywords.set_item("slice_by_slice", added.slice_by_slice)?;
        }
        if let Some(out) = added.out {
            keywords.set_item("out", out)?;
        }
    }
    Ok(keywords)
}

thread_local! {
    /// The lead of each traced call of this thread, where there was a choice.
    static LEADS: RefCell<Vec<Option<String>>> = const { RefCell::new(Vec::new()) };
}

impl Declared {
    /// Records a call as a span of the traces, if there are any.
    #[inline]
    pub(super) fn traced<'py>(
        slf: &Bound<'py, Self>,
        call: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let Some(start) = trace::start() else { return call() };
        LEADS.with_borrow_mut(|leads| leads.push(None));
        let result = call();
        let lead = LEADS.with_borrow_mut(Vec::pop).flatten();
        let definition = &slf.get().definition;
        // The call of a generator or a coroutine only makes it.
        if definition.kind == FunctionKind::Plain {
            let error = result.as_ref().err().map(|error| first_line(slf.py(), error));
            let span = Record { via: lead.unwrap_or_default(), ..definition.span(error) };
            trace::push_span(slf.py(), span, start);
        }
        result
    }

    /// Notes for the span of a call that is traced which array is the lead, if there was a choice.
    #[cold]
    pub(super) fn note_lead(call: &Call<'_, '_>) {
        let choice = arguments::choice(&call.slots, call.definition);
        let choice = choice.or_else(|| call.wrapper_in_words());
        LEADS.with_borrow_mut(|leads| leads.last_mut().map(|lead| *lead = choice));
    }

    /// Calls the function with arguments that may have to be converted.
    pub(super) fn call_generally<'py>(
        slf: &Bound<'py, Self>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        stack::expect_room()?;
        let (py, definition) = (slf.py(), &slf.get().definition);
        let options = &definition.options;
        let mut policy = options.policy(py);
        let (mut slice_by_slice, mut out) = (options.slice_by_slice, None);
        let mut added_keywords = None;
        if let Some(kwargs) = kwargs {
            // The dictionary belongs to this call.
            let added = definition.parameters.take_added(kwargs, options)?;
            policy = Policy::from_py(added.dtype_conversion.as_ref(), None, policy)?;
            (slice_by_slice, out) = (added.slice_by_slice, added.out.clone());
            added_keywords = Some(added);
        }
        if definition.is_differentiable() {
            let chosen = added_keywords.as_ref().and_then(|added| added.dtype_conversion.clone());
            let added = (chosen, slice_by_slice, out.is_some());
            if let Some(result) = gradients::call(definition, args, kwargs, added)? {
                return Ok(result);
            }
        }
        let kwargs = kwargs.filter(|kwargs| !kwargs.is_empty());
        let mut call = Call::new(slf, args, kwargs, policy);
        match options.tiles.is_some() || slice_by_slice {
            true => call.find_cut_arrays()?,
            false => call.find_arrays()?,
        }
        if let Some(result) = call.in_parts(|| given_again(py, added_keywords, options))? {
            return Ok(result);
        }
        if trace::is_tracing() {
            Declared::note_lead(&call);
        }
        if let Some(out) = out {
            call.write_to(out)?;
        }
        match (definition.kind, slice_by_slice) {
            (FunctionKind::Plain, false) => {
                let result = call.called(&call.slots, ResultScope::Call)?;
                let result = call.finish(result, ResultScope::Call)?;
                call.rewrapped(call.wrapper(), result)
            }
            (FunctionKind::Plain, true) => {
                // The arrays are put in another order then.
                let wrapper = call.wrapper();
                let result = call.slice_by_slice()?;
                call.rewrapped(wrapper, result)
            }
            (_, false) => {
                call.expect_no_wrapper()?;
                steps::start(call)
            }
            (_, true) => {
                let text = "slice_by_slice is for functions that return their result";
                Err(PyTypeError::new_err(text))
            }
        }
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
        park::rather_than_end(slf.py());
        Declared::traced(slf, || Declared::call_generally(slf, args, kwargs))
    }

    /// Gives the derivative of a function by hand, so that gradients of PyTorch, JAX and TensorFlow flow
    /// through it.
    ///
    /// Parameters
    /// ----------
    /// forward : callable
    ///     `forward(*arguments)` returns the result of the function and what `backward` needs. Arrays are
    ///     those of the function's framework.
    /// backward : callable
    ///     `backward(needed, gradient)` gets the latter and the gradient of the result. It returns a
    ///     tuple with the gradient of each positional argument, or None for one without, or only the
    ///     gradient of the first argument. For complex numbers, gradients are those of PyTorch.
    /// result : callable, optional
    ///     Describes the result for `jax.jit`, `jax.vmap` and `tf.function`, as in `jax_callback`.
    ///     It returns one object with a shape and a dtype, or a tuple of them.
    ///
    /// Raises
    /// ------
    /// TypeError
    ///     If the function has gradients of its own, or if its results are not those of the caller's
    ///     framework (`output_type="input"`).
    ///
    /// Examples
    /// --------
    /// >>> import numpy, torch, arraybridge
    /// >>> @arraybridge.numpy(output_type="input")
    /// ... def cubed(x):
    /// ...     return x**3
    /// >>> cubed.defvjp(lambda x: (x**3, x), lambda x, gradient: gradient * 3 * x**2)
    /// >>> x = torch.tensor([2.0], requires_grad=True)
    /// >>> cubed(x).backward()
    /// >>> x.grad
    /// tensor([12.])
    #[pyo3(signature = (forward, backward, *, result=None))]
    fn defvjp<'py>(
        slf: &Bound<'py, Self>,
        forward: &Bound<'py, PyAny>,
        backward: &Bound<'py, PyAny>,
        result: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        let definition = &slf.get().definition;
        definition.set_rule(&gradients::rule(definition, forward, backward, result)?)
    }

    fn __get__<'py>(
        slf: &Bound<'py, Self>,
        instance: &Bound<'py, PyAny>,
        owner: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let bound_to = match slf.get().definition.binding {
            Binding::Static => None,
            Binding::Class if instance.is_none() => owner.cloned(),
            Binding::Class => {
                Some(owner.cloned().unwrap_or_else(|| instance.get_type().into_any()))
            }
            Binding::Instance => Some(instance.clone()).filter(|instance| !instance.is_none()),
        };
        let Some(object) = bound_to else { return Ok(slf.clone().into_any()) };
        method_class(slf.py())?.call1((slf, object))
    }

    /// Pickles a function that can be imported by its qualified name as this name, any other one as
    /// its function and its options.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        if let Some(name) = importable_name(slf) {
            return Ok(name);
        }
        let definition = &slf.get().definition;
        let function = definition.function.bind(py).clone();
        let builtins = py.import("builtins")?;
        let function = match definition.binding {
            Binding::Instance => function,
            Binding::Class => builtins.getattr("classmethod")?.call1((function,))?,
            Binding::Static => builtins.getattr("staticmethod")?.call1((function,))?,
        };
        let declare = py.get_type::<Declared>().getattr("_restore")?;
        let execution = definition.options.execution.name;
        let arguments = (function, execution, definition.keywords.bind(py));
        Ok((declare, arguments).into_pyobject(py)?.into_any())
    }

    /// The object of a function and its declaration, for pickle.
    #[staticmethod]
    fn _restore<'py>(
        function: &Bound<'py, PyAny>,
        execution: &Bound<'py, PyAny>,
        keywords: &Bound<'py, PyDict>,
    ) -> Result<Bound<'py, Declared>> {
        let execution = names::framework(execution)?;
        let (definition, signature) = Definition::new(function, execution, keywords)?;
        let declared = Declared::new(function.py(), definition)?;
        set_attributes(&declared, declared.get().definition(), signature)?;
        Ok(declared)
    }

    fn __repr__(&self) -> String {
        let Definition { name, options, .. } = &self.definition;
        format!("<{name} declared for {}>", options.execution.name)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let definition = &self.definition;
        visit.call(&definition.function)?;
        visit.call(&definition.keywords)?;
        visit.call(&definition.options.host)?;
        definition.room.visit(&visit)?;
        definition.options.join.as_ref().map_or(Ok(()), |join| join.visit(&visit))?;
        visit.call(&definition.options.contract)
    }
}

/// `types.MethodType`.
fn method_class(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    CLASS.import(py, "types", "MethodType")
}

/// The qualified name of a declared function, if its module has this very object under it.
fn importable_name<'py>(declared: &Bound<'py, Declared>) -> Option<Bound<'py, PyAny>> {
    let py = declared.py();
    let name = declared.getattr(intern!(py, "__qualname__")).ok()?;
    let module: String = declared.getattr(intern!(py, "__module__")).ok()?.extract().ok()?;
    let modules = py.import("sys").ok()?.getattr("modules").ok()?;
    let module = modules.get_item(module).ok()?;
    let path: String = name.extract().ok()?;
    let found = path.split('.').try_fold(module, |object, part| object.getattr(part)).ok()?;
    found.is(declared).then_some(name)
}
