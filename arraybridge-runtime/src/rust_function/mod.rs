//! Rust functions that are declared with `#[memory_type(..)]`. Python calls them with arrays of any
//! framework, and gets arrays of the framework that they name.
//!
//! The attribute leaves the function as it is and registers a [`FunctionEntry`]. Its trampoline reads
//! the arguments of a [`RustCall`]: first the plain Python values, then the arrays by the trait
//! [`Argument`]. It claims the memory of the arrays, calls the function, and hands over the result.
//! [`export`] puts every function of an extension crate into its module, declared as the Python
//! decorators declare theirs. The element type of the result, the streams and the ways to go on when
//! memory runs out are those of functions that Python declares.

mod argument;
mod attempt;
mod borrow_flag;
mod class;
mod constraints;
mod containers;
mod copies;
// Without CUDA, a call has no stream.
#[cfg_attr(not(feature = "cuda"), path = "no_device.rs")]
mod device;
#[cfg(feature = "cuda")]
pub mod device_memory;
mod elements;
mod interrupt;
mod memory;
mod named_tuple;
mod native;
mod place;
mod result;

use std::cell::{Cell, OnceCell, RefCell};

use pyo3::PyTypeInfo;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};
use smallvec::SmallVec;

use crate::convert;
use crate::framework::spec::Framework;
use crate::interpreter::error::{Error, Result, add_note};
use crate::interpreter::vectorcall::Given;
use arraybridge_tensor::claims::Claim;

use containers::Items;
use device::CallStream;
use memory::ArgumentMemory;

pub use argument::Argument;
pub use attempt::{Attached, Attempt, Detachable};
pub use class::export;
pub use elements::{Scalar, Trampoline};
pub use interrupt::Interrupt;
pub use named_tuple::{GiveTuple, GiveValue, NamedTuple, Opaque, TupleClass, TupleEntry};
pub use native::Native;

/// The framework that a declared function returns arrays of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returns {
    /// The framework of this name.
    Framework(&'static str),
    /// The framework of the first array argument.
    Input,
}

/// Makes a Python object.
pub type Make = for<'py> fn(Python<'py>) -> PyResult<Bound<'py, PyAny>>;

/// A parameter that Python sees.
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// Its type as Python's type checkers know it.
    pub annotation: &'static str,
    /// The use of it, as an array or as a plain value.
    pub usage: Usage,
    /// Its value when the caller leaves it out; without one it is required.
    pub default: Option<Make>,
}

/// The use that a function makes of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// It takes a plain value.
    Value,
    /// It takes an object of the declared framework.
    Object,
    /// It opens an array's memory, whatever the framework.
    Opened,
    /// It opens an array's memory, and writes to it.
    Written,
}

/// The value of an option that the Python decorators have as well.
#[derive(Clone, Copy, Debug, IntoPyObject)]
pub enum Setting {
    /// Yes or no.
    Flag(bool),
    /// A number.
    Number(usize),
    /// Numbers, or `None` for some of them.
    Numbers(&'static [Option<usize>]),
    /// Numbers that may be negative.
    Integers(&'static [i64]),
    /// A name.
    Name(&'static str),
    /// Names.
    Names(&'static [&'static str]),
    /// Another declared function of the crate, by its identifier.
    Function(&'static str),
}

/// The condition for detaching a function from the interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detach {
    /// Nobody else can write to its arrays.
    IfPrivate,
    /// None: arrays that others could write to are copied.
    Copy,
    /// None: the author promises that nobody uses its arrays meanwhile.
    Always,
}

/// The class of a method, and how it is bound.
#[derive(Clone, Copy)]
pub struct Method {
    /// Returns the class.
    pub class: for<'py> fn(Python<'py>) -> Bound<'py, PyType>,
    /// The object that it is bound to.
    pub binding: Binding,
}

/// The object that a method is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// The instance.
    Instance,
    /// The class.
    Class,
    /// Nothing.
    Static,
}

/// The class of a type.
pub fn class_of<T: PyTypeInfo>(py: Python<'_>) -> Bound<'_, PyType> {
    py.get_type::<T>()
}

/// A declared function, as the attribute registers it.
pub struct FunctionEntry {
    /// Its name in Python.
    pub name: &'static str,
    /// The class that it is a method of.
    pub method: Option<Method>,
    /// Its name in Rust.
    pub ident: &'static str,
    /// The Rust module that it is in.
    pub module: &'static str,
    /// Its documentation.
    pub docs: &'static str,
    /// The framework that it is declared for.
    pub framework: &'static str,
    /// The framework of its results.
    pub returns: Returns,
    /// True if arrays of other element types are cast to those that the function takes.
    pub cast: bool,
    /// True if arrays that require a gradient are accepted. No gradient flows back through them.
    pub stop_gradient: bool,
    /// True if it works on a CUDA device: it takes a view of device memory, or the stream.
    pub cuda: bool,
    /// True if Python code may run during the call: it takes the interpreter, Python objects, values
    /// that may hold some, or an [`Interrupt`].
    pub takes_python: bool,
    /// The condition for detaching it from the interpreter.
    pub detach: Detach,
    /// The parameters that Python may pass.
    pub parameters: &'static [Parameter],
    /// The type of its result as Python's type checkers know it.
    pub annotation: &'static str,
    /// The keywords of declared functions that mean something for it.
    pub keywords: &'static [&'static str],
    /// Further options of its declaration.
    pub settings: &'static [(&'static str, Setting)],
    /// The function as an operator of compiled programs, if it has a rule for the shapes of its results.
    pub native: Option<Native>,
    /// Calls it.
    pub call: for<'py> fn(&RustCall<'_, 'py>) -> Result<Bound<'py, PyAny>>,
}

inventory::collect!(FunctionEntry);

/// A declared function with its frameworks.
#[derive(Clone, Copy)]
struct Declaration {
    entry: &'static FunctionEntry,
    framework: &'static Framework,
    /// The framework of the results; `None` for the one of the first array argument.
    output: Option<&'static Framework>,
}

/// The value that a caller gave for a parameter; the caller keeps it alive.
type Argued<'a, 'py> = Option<Borrowed<'a, 'py, PyAny>>;

/// Room for arguments that have to be put into the parameters' order.
type Sorted<'a, 'py> = SmallVec<[Argued<'a, 'py>; 8]>;

/// One call of a declared function.
pub struct RustCall<'a, 'py> {
    py: Python<'py>,
    function: Declaration,
    given: &'a [Argued<'a, 'py>],
    /// The items in the containers among them.
    items: OnceCell<Box<Items<'py>>>,
    memory: RefCell<SmallVec<[ArgumentMemory<'py>; 2]>>,
    /// The claim on that memory.
    claim: Cell<Option<Claim>>,
    /// True if to open the arrays calls into Python, once that is known. All arrays are asked.
    has_foreign_arrays: OnceCell<bool>,
    /// True if other code may have run since the first array was opened.
    others_ran: Cell<bool>,
    exposure: Exposure,
    /// The stream of a function that works on a CUDA device.
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "no function works there"))]
    stream: CallStream,
}

/// The exposure of a call's arrays to the writes of others.
#[derive(Default)]
struct Exposure {
    /// The size of the arrays that nobody else can write to.
    private_bytes: Cell<usize>,
    /// True if others can write to an array in host memory.
    on_host: Cell<bool>,
    /// True if others can write to an array in device memory.
    on_device: Cell<bool>,
}

impl FunctionEntry {
    /// Its path in Rust.
    fn path(&self) -> String {
        format!("{}::{}", self.module, self.ident)
    }

    /// The values that the caller gave, in the order of the parameters.
    #[inline]
    fn bind<'s, 'a: 's, 'py: 'a>(
        &self,
        given: &Given<'a, 'py>,
        sorted: &'s mut Sorted<'a, 'py>,
    ) -> PyResult<&'s [Argued<'a, 'py>]> {
        let all = given.all();
        if given.names().is_none() && all.len() == self.parameters.len() {
            // SAFETY: `Borrowed` is a transparent non-null pointer, so that an `Option` of one has the
            // same layout, and `Some` the same value.
            return Ok(unsafe { &*(std::ptr::from_ref(all) as *const [Option<_>]) });
        }
        self.sort(given, sorted)?;
        Ok(sorted)
    }

    /// Sorts what the caller gave into the parameters.
    fn sort<'a, 'py: 'a>(
        &self,
        given: &Given<'a, 'py>,
        sorted: &mut Sorted<'a, 'py>,
    ) -> PyResult<()> {
        let parameters = self.parameters;
        let wrong = |text: String| PyTypeError::new_err(format!("{}() {text}", self.name));
        let (positional, named) = given.all().split_at(given.positional());
        if positional.len() > parameters.len() {
            let (most, found) = (parameters.len(), positional.len());
            let s = if most == 1 { "" } else { "s" };
            return Err(wrong(format!("takes at most {most} argument{s} ({found} given)")));
        }
        sorted.extend(positional.iter().copied().map(Some));
        sorted.resize(parameters.len(), None);
        let names = given.names();
        for (key, value) in names.iter().flat_map(|names| names.iter_borrowed()).zip(named) {
            let key = key.cast::<PyString>()?;
            let name = key.to_str()?;
            let Some(index) = parameters.iter().position(|p| p.name == name) else {
                return Err(wrong(format!("got an unexpected keyword argument '{name}'")));
            };
            if sorted[index].replace(*value).is_some() {
                return Err(wrong(format!("got multiple values for argument '{name}'")));
            }
        }
        let missing =
            |(p, given): &(&Parameter, &Option<_>)| p.default.is_none() && given.is_none();
        if let Some((parameter, _)) = parameters.iter().zip(&*sorted).find(missing) {
            return Err(wrong(format!("missing required argument: '{}'", parameter.name)));
        }
        Ok(())
    }
}

impl<'a, 'py> RustCall<'a, 'py> {
    #[inline]
    fn new(py: Python<'py>, function: Declaration, given: &'a [Argued<'a, 'py>]) -> Self {
        let (memory, claim, others_ran, exposure, stream) = Default::default();
        let (items, has_foreign_arrays) = (OnceCell::new(), OnceCell::new());
        RustCall {
            py,
            function,
            given,
            items,
            memory,
            claim,
            has_foreign_arrays,
            others_ran,
            exposure,
            stream,
        }
    }

    /// Calls the function.
    fn invoke(&self) -> Result<Bound<'py, PyAny>> {
        let entry = self.function.entry;
        if entry.cuda { self.on_cuda() } else { (entry.call)(self) }
    }

    /// The interpreter.
    pub fn py(&self) -> Python<'py> {
        self.py
    }

    fn framework(&self) -> &'static Framework {
        self.function.framework
    }

    /// Refuses an array through which a gradient would flow back, unless the declaration stops it.
    fn stop_gradient(&self, given: &Bound<'_, PyAny>) -> Result<()> {
        match self.function.entry.stop_gradient {
            true => Ok(()),
            false => convert::expect_no_gradient(given, self.framework()),
        }
    }

    /// The value that the caller gave for a parameter, or in a container.
    #[inline]
    fn given(&self, index: usize) -> Option<Borrowed<'_, 'py, PyAny>> {
        match self.given.get(index) {
            Some(given) => *given,
            None => self.item(index),
        }
    }

    /// Returns whether the caller gave a value for a parameter, and not `None`.
    fn is_given(&self, index: usize) -> bool {
        self.given(index).is_some_and(|given| !given.is_none())
    }

    /// Says which argument an error is about.
    fn about(&self, index: usize, error: Error) -> Error {
        let name = self.label(index);
        let place = format!("{}() argument '{name}'", self.function.entry.name);
        match error {
            Error::Type(text) => Error::Type(format!("{place}: {text}")),
            Error::Value(text) => Error::Value(format!("{place}: {text}")),
            Error::Conversion(mut error) => {
                error.reason = format!("{place}: {}", error.reason);
                Error::Conversion(error)
            }
            Error::Python(error) if is_plain(self.py, &error) => {
                let text = format!("{place}: {}", error.value(self.py));
                let named = PyErr::from_type(error.get_type(self.py), (text,));
                named.set_cause(self.py, error.cause(self.py));
                Error::Python(named)
            }
            Error::Python(error) => noted(self.py, error, place),
            Error::Memory(error) => noted(self.py, Error::Memory(error).into(), place),
            other => other,
        }
    }
}

/// Returns whether an exception can be raised again with a longer text: it is a `TypeError`, or a `ValueError` or
/// an `OverflowError` that no Python code raised.
fn is_plain(py: Python<'_>, error: &PyErr) -> bool {
    let class = error.get_type(py);
    let is_of_value =
        class.is(py.get_type::<PyValueError>()) || class.is(py.get_type::<PyOverflowError>());
    class.is(py.get_type::<PyTypeError>()) || (is_of_value && error.traceback(py).is_none())
}

/// The text of an exception of another class is its own. A note that cannot be added is left out.
fn noted(py: Python<'_>, error: PyErr, place: String) -> Error {
    let _ = add_note(py, &error, &place);
    Error::Python(error)
}
