//! Declared functions as Python sees them.

use arraybridge_runtime::intern;
use arraybridge_runtime::interpreter::once::Once;
use arraybridge_runtime::interpreter::package::Part;
use arraybridge_runtime::interpreter::panic::memory_errors;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};

use super::Declared;
use super::definition::{Definition, FunctionKind, MethodBinding, Passthrough};
use super::gradients;
use super::names;
use super::object::{has_python_code, is_python_function};
use super::options::OutputType;
use super::passthrough;
use super::python_function;
use super::signature::{OwnKeywords, Signature};
use arraybridge_runtime::framework::spec::Framework;
use arraybridge_runtime::interpreter::error::Result;
use arraybridge_runtime::interpreter::park;
use arraybridge_runtime::interpreter::stack;
use arraybridge_runtime::interpreter::vectorcall;

impl Declared {
    /// Declares a function: a Python function becomes a Python function, anything else a [`Declared`].
    pub fn declare<'py>(
        function: &Bound<'py, PyAny>,
        execution: &'static Framework,
        keywords: &Bound<'py, PyDict>,
    ) -> Result<Bound<'py, PyAny>> {
        let (definition, signature) = Definition::new(function, execution, keywords, hands_on)?;
        let (py, binding) = (function.py(), definition.binding);
        let (is_plain, inner) =
            (definition.kind == FunctionKind::Plain, definition.function.bind(py).clone());
        let declared = Declared::new(py, definition)?;
        let shown = if is_plain && has_python_code(&inner)? {
            python_function::calling(&declared, &inner)?
        } else {
            declared.clone().into_any()
        };
        set_attributes(&shown, declared.get().definition(), signature)?;
        if !shown.is(&declared) {
            shown.setattr("defvjp", declared.getattr("defvjp")?)?;
            // Python binds its own functions by these, and compilers know them.
            let wrap = match binding {
                MethodBinding::Instance => return Ok(shown),
                MethodBinding::Class => "classmethod",
                MethodBinding::Static => "staticmethod",
            };
            return Ok(py.import("builtins")?.getattr(wrap)?.call1((shown,))?);
        }
        Ok(shown)
    }

    fn new(py: Python<'_>, definition: Definition) -> Result<Bound<'_, Declared>> {
        let vectorcall = match definition.passthrough {
            // SAFETY: the function implements the vectorcall protocol for instances of `Declared`.
            Some(Passthrough::Unchecked) => unsafe {
                vectorcall::Slot::with_function(passthrough::vectorcall_unchecked)
            },
            _ => vectorcall::Slot::default(),
        };
        let declared = Bound::new(py, Declared { vectorcall, definition })?;
        static INSTALLED: PyOnceLock<()> = PyOnceLock::new();
        INSTALLED.once(py, || vectorcall::install(&declared));
        Ok(declared)
    }

    /// The framework that the function works on, and the function.
    pub fn parts<'py>(&self, py: Python<'py>) -> (&'static Framework, Bound<'py, PyAny>) {
        let Definition { function, options, .. } = &self.definition;
        (options.execution, function.bind(py).clone())
    }
}

#[pymethods]
impl Declared {
    #[pyo3(signature = (*args, **kwargs))]
    #[memory_errors]
    fn __call__<'py>(
        slf: &Bound<'py, Self>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        park::rather_than_end(slf.py());
        stack::expect_room()?;
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
    #[memory_errors]
    fn defvjp<'py>(
        slf: &Bound<'py, Self>,
        forward: &Bound<'py, PyAny>,
        backward: &Bound<'py, PyAny>,
        result: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        let definition = &slf.get().definition;
        definition.set_rule(&gradients::rule(definition, forward, backward, result)?)
    }

    #[memory_errors]
    fn __get__<'py>(
        slf: &Bound<'py, Self>,
        instance: &Bound<'py, PyAny>,
        owner: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let bound_to = match slf.get().definition.binding {
            MethodBinding::Static => None,
            MethodBinding::Class if instance.is_none() => owner.cloned(),
            MethodBinding::Class => {
                Some(owner.cloned().unwrap_or_else(|| instance.get_type().into_any()))
            }
            MethodBinding::Instance => {
                Some(instance.clone()).filter(|instance| !instance.is_none())
            }
        };
        let Some(object) = bound_to else { return Ok(slf.clone().into_any()) };
        method_class(slf.py())?.call1((slf, object))
    }

    /// Pickles a function that can be imported by its qualified name as this name, any other one as
    /// its function and its options.
    #[memory_errors]
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        if let Some(name) = importable_name(slf) {
            return Ok(name);
        }
        let definition = &slf.get().definition;
        let function = definition.function.bind(py).clone();
        let builtins = py.import("builtins")?;
        let function = match definition.binding {
            MethodBinding::Instance => function,
            MethodBinding::Class => builtins.getattr("classmethod")?.call1((function,))?,
            MethodBinding::Static => builtins.getattr("staticmethod")?.call1((function,))?,
        };
        let declare = py.get_type::<Declared>().getattr("_restore")?;
        let execution = definition.options.execution.name;
        let arguments = (function, execution, definition.keywords.bind(py));
        Ok((declare, arguments).into_pyobject(py)?.into_any())
    }

    /// The object of a function and its declaration, for pickle.
    #[staticmethod]
    #[memory_errors]
    fn _restore<'py>(
        function: &Bound<'py, PyAny>,
        execution: &Bound<'py, PyAny>,
        keywords: &Bound<'py, PyDict>,
    ) -> Result<Bound<'py, Declared>> {
        let execution = names::framework(execution)?;
        let (definition, signature) = Definition::new(function, execution, keywords, hands_on)?;
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

/// The keywords that a function hands on to a declared function that adds them: it is that function, a partial of it, or
/// a wrapper of it that takes any keyword.
fn hands_on(function: &Bound<'_, PyAny>) -> PyResult<OwnKeywords> {
    let py = function.py();
    let partial = py.import(intern!(py, "functools"))?.getattr("partial")?;
    let mut next = Some(function.clone());
    while let Some(function) = next {
        if let Some(declared) = Declared::of(&function) {
            let definition = declared.get().definition();
            return Ok(definition.parameters.handed_on(&definition.options));
        }
        let is_partial = function.is_instance(&partial)?;
        let inner = function.getattr_opt(if is_partial { "func" } else { "__wrapped__" })?;
        next = match inner {
            Some(_) if !is_partial && !takes_any_keyword(&function)? => None,
            inner => inner,
        };
    }
    Ok(OwnKeywords::default())
}

/// Returns whether a Python function has `**kwargs`, whatever signature it shows.
fn takes_any_keyword(function: &Bound<'_, PyAny>) -> PyResult<bool> {
    const VAR_KEYWORDS: u32 = 8;
    if !is_python_function(function)? {
        return Ok(false);
    }
    Ok(function.getattr("__code__")?.getattr("co_flags")?.extract::<u32>()? & VAR_KEYWORDS != 0)
}

/// Makes a declared function look like its function, with the attributes that callers of the original package read.
fn set_attributes(
    declared: &Bound<'_, PyAny>,
    definition: &Definition,
    signature: Option<Signature<'_>>,
) -> PyResult<()> {
    static DRESS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let (py, Definition { options, keywords, .. }) = (declared.py(), definition);
    // A Python function has the attributes already.
    let function = declared.is_instance_of::<Declared>().then_some(&definition.function);
    let output = match options.output {
        OutputType::Fixed(framework) => framework.name,
        OutputType::Input => "input",
    };
    let types = (options.usual_input.name, output, options.execution.name);
    let is_coroutine = definition.kind == FunctionKind::Coroutine;
    let dress = Part::Function.attribute(py, &DRESS, "dress")?;
    dress.call1((declared, function, signature, types, keywords, is_coroutine)).map(drop)
}
