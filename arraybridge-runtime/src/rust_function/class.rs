//! Declared functions as Python sees them.

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyTuple, PyType};
use pyo3::{ffi, intern};

use super::named_tuple::{add_classes, resolved};
use super::{Binding, Call, Declaration, FunctionEntry, Returns, Setting, Sorted, Usage};
use crate::c_api;
use crate::framework::generated::MemoryType;
use crate::framework::spec::Framework;
use crate::interpreter::vectorcall::{self, Given, vectorcall_class};
use crate::interpreter::{classes, park};

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
        let vectorcall = vectorcall::Slot::new();
        let function = Bound::new(py, Function { vectorcall, declaration })?;
        static INSTALLED: PyOnceLock<()> = PyOnceLock::new();
        INSTALLED.get_or_init(py, || vectorcall::install(&function));
        let entry = declaration.entry;
        for (name, value) in
            [("__name__", entry.name), ("__qualname__", entry.name), ("__doc__", entry.docs)]
        {
            function.setattr(name, value)?;
        }
        if let Some(method) = entry.method {
            let class = (method.class)(py).qualname()?;
            function.setattr("__qualname__", format!("{class}.{}", entry.name))?;
        }
        Ok(function)
    }

    fn called<'py>(slf: &Bound<'py, Self>, given: &Given<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
        slf.get().invoke(slf.py(), given)
    }

    fn invoke<'py>(&self, py: Python<'py>, given: &Given<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
        let mut sorted = Sorted::new();
        let given = self.declaration.entry.bind(given, &mut sorted)?;
        Ok(Call::new(py, self.declaration, given).invoke()?)
    }
}

#[pymethods]
impl Function {
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = args.py();
        let (names, values): (Vec<_>, Vec<_>) = kwargs.into_iter().flatten().unzip();
        let all = args.iter_borrowed().chain(values.iter().map(Bound::as_borrowed));
        self.invoke(py, &Given::of(&all.collect::<Vec<_>>(), &PyTuple::new(py, names)?))
    }

    #[getter]
    fn __signature__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let inspect = py.import("inspect")?;
        let class = inspect.getattr("Parameter")?;
        let kind = class.getattr("POSITIONAL_OR_KEYWORD")?;
        let entry = self.declaration.entry;
        let parameters = PyList::empty(py);
        for parameter in entry.parameters {
            let keywords = PyDict::new(py);
            if !parameter.annotation.is_empty() {
                keywords.set_item("annotation", resolved(parameter.annotation))?;
            }
            if let Some(default) = parameter.default {
                keywords.set_item("default", default(py)?)?;
            }
            parameters.append(class.call((parameter.name, &kind), Some(&keywords))?)?;
        }
        let keywords = PyDict::new(py);
        keywords.set_item("return_annotation", resolved(entry.annotation))?;
        inspect.getattr("Signature")?.call((parameters,), Some(&keywords))
    }

    fn __repr__(&self) -> String {
        format!("<Rust function {}>", self.declaration.entry.name)
    }
}

fn framework(name: &'static str) -> PyResult<&'static Framework> {
    let found = MemoryType::from_name(name).map(MemoryType::framework);
    // The attribute knows the tables that its crate was built with, and the runtime its own.
    found.ok_or_else(|| PyImportError::new_err(format!("this build has no framework {name:?}")))
}

/// Adds every function of this extension crate that is declared with `#[memory_type(..)]` to its
/// module, in the order of their names, and the class of each `NamedTuple`. Methods are added to their classes.
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
    let package = c_api::join(py)?;
    let mut entries: Vec<_> = inventory::iter::<FunctionEntry>.into_iter().collect();
    entries.sort_by_key(|entry| (entry.method.is_some(), entry.name, entry.module));
    refuse_duplicates(&entries)?;
    add_classes(module)?;
    let mut functions = Vec::with_capacity(entries.len());
    for entry in entries {
        let output = match entry.returns {
            Returns::Framework(name) => Some(framework(name)?),
            Returns::Input => None,
        };
        let declaration = Declaration { entry, framework: framework(entry.framework)?, output };
        let function = Function::new(py, declaration)?;
        function.setattr("__module__", module.name()?)?;
        functions.push(function);
    }
    let classes = functions.iter().filter_map(|function| function.get().declaration.entry.method);
    name_module(module, classes.map(|method| (method.class)(py)))?;
    for function in &functions {
        let entry = function.get().declaration.entry;
        let options = options(function, &functions)?;
        let bound = bound(function)?;
        let declared = package.call_method1("_declare", (bound, entry.framework, options))?;
        match entry.method {
            Some(method) => (method.class)(py).setattr(entry.name, declared)?,
            None => module.add(entry.name, declared)?,
        }
    }
    Ok(())
}

/// Gives classes the name of the module that they are in, and so all classes that are in it: PyO3 takes those whose
/// `#[pyclass]` names no module for built-in ones.
fn name_module<'py>(
    module: &Bound<'py, PyModule>,
    classes: impl Iterator<Item = Bound<'py, PyType>>,
) -> PyResult<()> {
    let attribute = intern!(module.py(), "__module__");
    let values = module.dict().values().into_iter();
    let others = values.filter_map(|value| value.cast_into::<PyType>().ok());
    for class in classes.chain(others) {
        // Python's own classes are static, and those that may not change are left as they are.
        let changeable = classes::flags(&class)
            & (ffi::Py_TPFLAGS_HEAPTYPE | ffi::Py_TPFLAGS_IMMUTABLETYPE)
            == ffi::Py_TPFLAGS_HEAPTYPE;
        if changeable && class.getattr(attribute)?.eq("builtins")? {
            class.setattr(attribute, module.name()?)?;
        }
    }
    Ok(())
}

/// Refuses two functions of one name; `entries` are in the order of their names.
fn refuse_duplicates(entries: &[&FunctionEntry]) -> PyResult<()> {
    let is_twice = |pair: &&[&FunctionEntry]| {
        pair[0].name == pair[1].name && pair.iter().all(|entry| entry.method.is_none())
    };
    if let Some(pair) = entries.windows(2).find(is_twice) {
        let [one, other] = pair else { unreachable!("windows of two") };
        let text = format!(
            "two declared functions are called {}, in {} and in {}; give one of them another `name`",
            one.name, one.module, other.module
        );
        return Err(PyImportError::new_err(text));
    }
    Ok(())
}

/// A function, or the method that it is, as the body of a class has it.
fn bound<'py>(function: &Bound<'py, Function>) -> PyResult<Bound<'py, PyAny>> {
    let builtins = function.py().import("builtins")?;
    let wrapper = match function.get().declaration.entry.method.map(|method| method.binding) {
        Some(Binding::Class) => "classmethod",
        Some(Binding::Static) => "staticmethod",
        Some(Binding::Instance) | None => return Ok(function.clone().into_any()),
    };
    builtins.getattr(wrapper)?.call1((function,))
}

/// The declaration as the Python decorators take it.
fn options<'py>(
    function: &Bound<'py, Function>,
    all: &[Bound<'py, Function>],
) -> PyResult<Bound<'py, PyDict>> {
    let Declaration { entry, output, .. } = function.get().declaration;
    let options = PyDict::new(function.py());
    let with = |wanted: &[Usage]| -> Vec<&str> {
        let parameters = entry.parameters.iter().filter(|p| wanted.contains(&p.usage));
        parameters.map(|parameter| parameter.name).collect()
    };
    options.set_item("output_type", output.map_or("input", |output| output.name))?;
    options.set_item("arrays", with(&[Usage::Object, Usage::Opened, Usage::Written]))?;
    options.set_item("opened", with(&[Usage::Opened, Usage::Written]))?;
    options.set_item("written", with(&[Usage::Written]))?;
    options.set_item("delivers", true)?;
    options.set_item("shown", PyTuple::new(function.py(), entry.keywords)?)?;
    for (name, setting) in entry.settings {
        match setting {
            Setting::Flag(value) => options.set_item(name, value)?,
            Setting::Number(value) => options.set_item(name, value)?,
            Setting::Numbers(values) => {
                options.set_item(name, PyTuple::new(function.py(), values.iter())?)?
            }
            Setting::Integers(values) => {
                options.set_item(name, PyTuple::new(function.py(), values.iter())?)?
            }
            Setting::Name(value) => options.set_item(name, value)?,
            Setting::Names(values) => {
                options.set_item(name, PyTuple::new(function.py(), values.iter())?)?
            }
            Setting::Function(ident) => options.set_item(name, declared(entry, ident, all)?)?,
        }
    }
    Ok(options)
}

/// The declared function of an identifier: the one in the same Rust module, else the only one.
fn declared<'a, 'py>(
    from: &FunctionEntry,
    ident: &str,
    all: &'a [Bound<'py, Function>],
) -> PyResult<&'a Bound<'py, Function>> {
    let entry = |function: &Bound<'py, Function>| function.get().declaration.entry;
    let is_it = |function: &&Bound<'py, Function>| {
        entry(function).ident == ident && entry(function).method.is_none()
    };
    let found: Vec<_> = all.iter().filter(is_it).collect();
    let near = found.iter().find(|function| entry(function).module == from.module);
    let only = || found.first().filter(|_| found.len() == 1);
    near.or_else(only).copied().ok_or_else(|| {
        let why = if found.is_empty() { "is not declared" } else { "is declared more than once" };
        let text = format!("{} names the function {ident}, which {why}", from.name);
        PyImportError::new_err(format!("{text}; declare it once with #[memory_type(..)]"))
    })
}
