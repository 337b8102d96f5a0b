//! Declared functions as Python sees them.

#![expect(
    clippy::disallowed_macros,
    reason = "the code that PyO3 derives makes its strings while forks wait"
)]

use std::ffi::CString;

use arraybridge_native::Entry;

use crate::interpreter::fork;
use crate::interpreter::once::Once;
use crate::interpreter::package::Part;
use pyo3::exceptions::{PyImportError, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCapsule, PyDict, PyTuple, PyType};

use super::named_tuple::{add_classes, tuple_names};
use super::native;
use super::{Declaration, FunctionEntry, Parameter, Returns, RustCall, Setting, Sorted};
use crate::c_api;
use crate::framework::generated::MemoryType;
use crate::framework::spec::Framework;
use crate::interpreter::park;
use crate::interpreter::vectorcall::{self, Given, vectorcall_class};

/// A Rust function as its declaration calls it: it opens the arrays that it is given by itself, and
/// gives arrays of the framework that it returns.
#[pyclass(frozen, dict, weakref, module = "arraybridge", name = "RustFunction")]
pub struct Function {
    vectorcall: vectorcall::Slot<Function>,
    declaration: Declaration,
}

vectorcall_class!(Function, vectorcall, Function::called);

impl Function {
    fn new<'py>(py: Python<'py>, declaration: Declaration) -> PyResult<Bound<'py, Function>> {
        let vectorcall = vectorcall::Slot::default();
        let function = Bound::new(py, Function { vectorcall, declaration })?;
        static INSTALLED: PyOnceLock<()> = PyOnceLock::new();
        INSTALLED.once(py, || vectorcall::install(&function));
        Ok(function)
    }

    fn called<'py>(slf: &Bound<'py, Self>, given: &Given<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
        slf.get().with_call(slf.py(), given, |call| match call.invoke() {
            // No array of a program that is being compiled can be opened.
            Err(error) if slf.get().declaration.entry.native.is_some() => {
                let error = PyErr::from(error);
                call.in_program(slf)?.ok_or(error)
            }
            done => Ok(done?),
        })
    }

    /// Uses a call with what a caller gave.
    #[inline]
    fn with_call<'py>(
        &self,
        py: Python<'py>,
        given: &Given<'_, 'py>,
        run: impl FnOnce(&RustCall<'_, 'py>) -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut sorted = Sorted::new();
        let given = self.declaration.entry.bind(given, &mut sorted)?;
        run(&RustCall::new(py, self.declaration, given))
    }
}

#[pymethods]
impl Function {
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        slf: &Bound<'py, Self>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        gathered(args, kwargs, |given| Self::called(slf, given))
    }

    /// Whether it is an operator of compiled programs.
    #[getter]
    fn _is_native(&self) -> bool {
        self.declaration.entry.native.is_some()
    }

    /// The kind of device whose memory the function works in: "cpu" or "cuda".
    #[getter]
    fn _device(&self) -> &'static str {
        native::device(self.declaration.entry)
    }

    /// What a program has to pass for a call, and what it gets; None without a rule for the shapes of the results, and
    /// if a plain value is an array of the program.
    #[pyo3(signature = (*args, **kwargs))]
    fn _describe<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(native) = &self.declaration.entry.native else { return Ok(None) };
        let describe = |call: &RustCall<'_, 'py>| match call.has_values()? {
            true => Ok((native.describe)(call)?),
            false => Ok(args.py().None().into_bound(args.py())),
        };
        let found = gathered(args, kwargs, |given| self.with_call(args.py(), given, describe))?;
        Ok((!found.is_none()).then_some(found))
    }

    /// The name of the function as an operator, and XLA's handler in a capsule; None without such a rule.
    fn _target<'py>(&self, py: Python<'py>) -> PyResult<Option<(String, Bound<'py, PyCapsule>)>> {
        let entry = self.declaration.entry;
        entry.native.as_ref().map(|native| native.target(py, entry)).transpose()
    }

    /// What tells it from the functions of other modules, and not from itself where its module is imported again; None
    /// without such a rule.
    #[getter]
    fn _key(&self) -> Option<(String, usize)> {
        let entry = self.declaration.entry;
        let address = entry.native.as_ref()?.entry.xla as *const () as usize;
        Some((entry.path(), address))
    }

    /// What the function needs to be an operator of PyTorch, which `_register` registers.
    fn _operator(&self) -> Option<native::Operator> {
        let entry = self.declaration.entry;
        entry.native.as_ref().map(|native| native.operator(entry))
    }

    /// Registers the function as an operator of PyTorch, or of TensorFlow, which has no namespaces. The library of the
    /// framework is in this file, and the part of it that knows CUDA in another one.
    #[pyo3(signature = (library, name, namespace = None))]
    fn _register(
        &self,
        library: (CString, CString),
        name: &str,
        namespace: Option<&str>,
    ) -> PyResult<()> {
        let (library, cuda) = (&library.0, &library.1);
        let native = self.declaration.entry.native.as_ref();
        let Entry { torch, tensorflow, .. } =
            native.ok_or_else(|| PyTypeError::new_err("it has no rule for its results"))?.entry;
        let registered = match namespace {
            Some(namespace) => torch.register((library, cuda), namespace, name),
            None => tensorflow.register(library, name),
        };
        registered.map_err(|error| PyRuntimeError::new_err(error.text))
    }

    fn __repr__(&self) -> String {
        format!("<Rust function {}>", self.declaration.entry.name)
    }
}

/// Uses what a caller gave in a tuple and a dict.
fn gathered<'py, T>(
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
    run: impl FnOnce(&Given<'_, 'py>) -> PyResult<T>,
) -> PyResult<T> {
    let (names, values): (Vec<_>, Vec<_>) = kwargs.into_iter().flatten().unzip();
    let all = args.iter_borrowed().chain(values.iter().map(Bound::as_borrowed));
    run(&Given::of(&all.collect::<Vec<_>>(), &PyTuple::new(args.py(), names)?))
}

fn framework(name: &'static str) -> PyResult<&'static Framework> {
    let found = MemoryType::from_name(name).map(MemoryType::framework);
    // The attribute knows the tables that its crate was built with, and the runtime its own.
    found.ok_or_else(|| PyImportError::new_err(format!("this build has no framework {name:?}")))
}

/// Adds every function of this extension crate that is declared with `#[memory_type(..)]` to its
/// module, in the order of their names, and the class of each `NamedTuple`. Methods are added to their classes.
/// `arraybridge._declared.export` declares them, as the decorators declare Python functions.
///
/// # Errors
///
/// `ImportError` when the `arraybridge` package is missing or has another version, when two functions
/// have the same name, when a framework is not in the tables, and when an option names a function that
/// is not declared. A function that does not exist at all does not compile:
///
/// ```compile_fail,E0425
/// #[arraybridge_runtime::memory_type(numpy, host = nowhere)]
/// fn f() {}
/// ```
pub fn export(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    park::rather_than_end(py);
    c_api::join(py)?;
    add_classes(module)?;
    let entries = inventory::iter::<FunctionEntry>.into_iter();
    let exported = entries.map(|entry| Exported::of(py, entry)).collect::<PyResult<Vec<_>>>()?;
    let declare = Part::Export.get(py)?.getattr("declare")?;
    let declared = {
        let _making = fork::making();
        declare.call1((module, exported, tuple_names()))?
    };
    for (name, function) in declared.extract::<Vec<(String, Bound<'_, PyAny>)>>()? {
        module.add(name, function)?;
    }
    Ok(())
}

/// A function, and what the package has to know to declare it.
#[derive(IntoPyObject)]
struct Exported<'py> {
    function: Bound<'py, Function>,
    name: &'static str,
    docs: &'static str,
    annotation: &'static str,
    /// Its name and its module in Rust.
    ident: &'static str,
    module: &'static str,
    framework: &'static str,
    output: &'static str,
    /// The class that it is a method of, and the number of its binding.
    method: Option<(Bound<'py, PyType>, u8)>,
    parameters: Vec<ExportedParameter<'py>>,
    keywords: &'static [&'static str],
    /// The options, each with its value, and whether that names a function.
    settings: Vec<(&'static str, Setting, bool)>,
}

/// The name of a parameter, its annotation, the number of its usage, and its default, if it has one.
type ExportedParameter<'py> = (&'static str, &'static str, u8, Option<(Bound<'py, PyAny>,)>);

impl<'py> Exported<'py> {
    fn of(py: Python<'py>, entry: &'static FunctionEntry) -> PyResult<Exported<'py>> {
        let output = match entry.returns {
            Returns::Framework(name) => Some(framework(name)?),
            Returns::Input => None,
        };
        let declaration = Declaration { entry, framework: framework(entry.framework)?, output };
        let parameters = entry.parameters.iter().map(|parameter| {
            let Parameter { name, annotation, usage, default } = *parameter;
            let default = default.map(|make| make(py)).transpose()?;
            Ok((name, annotation, usage as u8, default.map(|value| (value,))))
        });
        let settings = entry.settings.iter();
        Ok(Exported {
            function: Function::new(py, declaration)?,
            name: entry.name,
            docs: entry.docs,
            annotation: entry.annotation,
            ident: entry.ident,
            module: entry.module,
            framework: entry.framework,
            output: output.map_or("input", |output| output.name),
            method: entry.method.map(|method| ((method.class)(py), method.binding as u8)),
            parameters: parameters.collect::<PyResult<_>>()?,
            keywords: entry.keywords,
            settings: settings
                .map(|(name, value)| (*name, *value, matches!(value, Setting::Function(_))))
                .collect(),
        })
    }
}
