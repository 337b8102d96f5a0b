//! A function and its declaration, read once when the function is declared.

use arraybridge_runtime::interpreter::package::Part;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::ladder::Room;
use super::options::{Options, OutputType, RULE};
use super::signature::{HandsOn, Parameters, Signature};
use crate::policy::{Conversion, Narrow, Policy};
use arraybridge_runtime::convert::record::Record;
use arraybridge_runtime::convert::{Narrowing, trace};
use arraybridge_runtime::framework::spec::Framework;
use arraybridge_runtime::interpreter::error::{Error, Result};

/// The object that calling a function returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionKind {
    /// Its result.
    Plain,
    /// A coroutine.
    Coroutine,
    /// A generator.
    Generator,
    /// An asynchronous generator.
    AsyncGenerator,
}

impl FunctionKind {
    /// All kinds, by the numbers that `arraybridge._declared.function` has for them.
    const ALL: [FunctionKind; 4] = [
        FunctionKind::Plain,
        FunctionKind::Coroutine,
        FunctionKind::Generator,
        FunctionKind::AsyncGenerator,
    ];
}

/// The way in which a function in the body of a class is bound when it is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MethodBinding {
    /// To the instance.
    Instance,
    /// To the class.
    Class,
    /// Not at all.
    Static,
}

impl MethodBinding {
    /// All bindings, by the numbers that `arraybridge._declared.function` has for them.
    const ALL: [MethodBinding; 3] =
        [MethodBinding::Instance, MethodBinding::Class, MethodBinding::Static];
}

/// A function and its declaration.
pub struct Definition {
    /// Tells it from all others, also from those that are gone.
    pub id: usize,
    /// The function.
    pub function: Py<PyAny>,
    /// The declaration.
    pub options: Options,
    /// The options as they were written, for pickle.
    pub keywords: Py<PyDict>,
    /// The function's name in messages.
    pub name: String,
    /// The function's parameters.
    pub parameters: Parameters,
    /// The object that a call returns.
    pub kind: FunctionKind,
    /// The way in which the function is bound.
    pub binding: MethodBinding,
    /// The way in which arguments that fit are passed through, if they can be.
    pub passthrough: Option<Passthrough>,
    /// The record of the array sizes for which memory sufficed.
    pub room: Room,
    /// True if gradients of other frameworks flow through the function.
    is_differentiable: AtomicBool,
    /// True if the object of the function is never freed.
    #[cfg(all(Py_GIL_DISABLED, not(Py_LIMITED_API)))]
    pub lasts: AtomicBool,
}

impl Definition {
    /// Reads a function and its declaration. The second value is as in [`Parameters::read`].
    ///
    /// # Errors
    ///
    /// [`Error::Type`] for an object that cannot be called; as [`Options::read`] and
    /// [`Parameters::read`].
    pub fn new<'py>(
        function: &Bound<'py, PyAny>,
        execution: &'static Framework,
        keywords: &Bound<'py, PyDict>,
        hands_on: HandsOn,
    ) -> Result<(Definition, Option<Signature<'py>>)> {
        let about = Part::Function.get(function.py())?.getattr("about")?;
        let (function, binding, name, kind): (Bound<'py, PyAny>, usize, String, usize) =
            about.call1((function,))?.extract()?;
        let options = Options::read(execution, keywords)?;
        let (parameters, signature) = Parameters::read(&function, &options, hands_on)?;
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let mut definition = Definition {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            name,
            kind: FunctionKind::ALL[kind],
            keywords: keywords.copy()?.unbind(),
            function: function.unbind(),
            options,
            parameters,
            binding: MethodBinding::ALL[binding],
            passthrough: None,
            room: Room::default(),
            is_differentiable: AtomicBool::new(false),
            #[cfg(all(Py_GIL_DISABLED, not(Py_LIMITED_API)))]
            lasts: AtomicBool::new(false),
        };
        if definition.options.tiles.is_some() && definition.kind != FunctionKind::Plain {
            let text = "tiles is for functions that return their result";
            return Err(Error::Type(text.to_owned()));
        }
        if definition.options.differentiable {
            let check = Part::Gradients.get(keywords.py())?.getattr("check")?;
            check.call1((execution.name, &definition.name, keywords))?;
            if definition.kind != FunctionKind::Plain {
                let text = "differentiable is for functions that return their result";
                return Err(Error::Type(text.to_owned()));
            }
        }
        let is_differentiable = definition.options.differentiable || keywords.contains(RULE)?;
        *definition.is_differentiable.get_mut() = is_differentiable;
        definition.passthrough = Passthrough::of(&definition);
        Ok((definition, signature))
    }

    /// Returns whether gradients of other frameworks flow through the function.
    #[inline]
    pub fn is_differentiable(&self) -> bool {
        self.is_differentiable.load(Ordering::Relaxed)
    }

    /// Sets the derivative that is given by hand.
    ///
    /// # Errors
    ///
    /// `MemoryError`.
    pub fn set_rule(&self, rule: &Bound<'_, PyAny>) -> PyResult<()> {
        self.keywords.bind(rule.py()).set_item(RULE, rule)?;
        self.is_differentiable.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// The span of a call, with the error that it raised.
    pub fn span(&self, error: Option<String>) -> Record {
        let output = match self.options.output {
            OutputType::Fixed(framework) => framework.name,
            OutputType::Input => "input",
        };
        let call = Record::between(self.options.input.name, output, "call", self.name.clone());
        Record { why: error.map(Into::into), ..call }
    }

    /// The narrowing of arrays whose dtype their target lacks; `None` if that is an error.
    #[cold]
    pub fn narrowing(&self, py: Python<'_>) -> Option<Narrowing<'_>> {
        let narrow = || Policy::default_of_context(py).narrow;
        let is_allowed = self.options.narrow.unwrap_or_else(narrow) == Narrow::Warn
            && trace::copy_default(py, self.options.copy) != Some(false);
        let narrowing = Narrowing { function: &self.name };
        is_allowed.then_some(narrowing)
    }
}

/// The way in which arguments are passed through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passthrough {
    /// After a check that the arguments fit; the result is checked, too.
    Checked,
    /// Always: the function opens all arrays itself, and its result needs no conversion.
    Unchecked,
}

impl Passthrough {
    /// The way in which a function's arguments are passed through; `None` if they cannot be.
    pub fn of(definition: &Definition) -> Option<Passthrough> {
        let options = &definition.options;
        let is_input = |other: &Framework| other.is(options.input);
        let keeps_results = match options.output {
            OutputType::Fixed(output) => options.delivers || is_input(output),
            OutputType::Input => options.delivers,
        };
        let is_simple = definition.kind == FunctionKind::Plain
            && options.accepts_own_arrays()
            && options.contract.is_none()
            && options.lead.is_none()
            && options.writes_to().is_empty()
            && !options.slice_by_slice
            && options.tiles.is_none()
            && is_input(options.execution)
            && (options.delivers || !options.execution.lazy)
            && keeps_results;
        let needs_no_check = options.delivers
            && options.conversion == Some(Conversion::NativeOutput)
            && !definition.parameters.converts()
            && !options.execution.enters_devices();
        is_simple.then_some(match needs_no_check {
            true => Passthrough::Unchecked,
            false => Passthrough::Checked,
        })
    }
}
