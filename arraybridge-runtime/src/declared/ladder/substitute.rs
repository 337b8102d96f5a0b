//! A copy of a function that works on host arrays.
//!
//! A framework without host arrays, such as CuPy, names the host modules that have the same
//! functions. The copy is like the function, but where the function refers to one of the
//! framework's modules, by a global name, a default, a closure or an import in its body, the copy
//! refers to the host module. No module is written to: the copy has globals of its own.

use std::collections::HashMap;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyModule, PyString, PyTuple};

use crate::convert::{self, Request};
use crate::declared::Declared;
use crate::framework::detect;
use crate::framework::generated::MemoryType;
use crate::framework::spec::Framework;
use crate::interpreter::error::first_line;

/// The copy of a function for the host.
///
/// # Errors
///
/// What has no counterpart, in words.
pub fn on_host<'py>(
    function: &Bound<'py, PyAny>,
    framework: &'static Framework,
) -> Result<Bound<'py, PyAny>, String> {
    let py = function.py();
    let mut copier = Copier { py, framework, copies: HashMap::new(), globals: HashMap::new() };
    match copier.value("the function", function) {
        Ok(Some(copy)) => Ok(copy),
        Ok(None) => Err("the function is not written in Python, or in another module".to_owned()),
        Err(Missing::Counterpart(what)) => Err(what),
        Err(Missing::Python(error)) => Err(first_line(py, &error)),
    }
}

enum Missing {
    Counterpart(String),
    Python(PyErr),
}

impl From<PyErr> for Missing {
    fn from(error: PyErr) -> Missing {
        Missing::Python(error)
    }
}

impl From<crate::interpreter::error::Error> for Missing {
    fn from(error: crate::interpreter::error::Error) -> Missing {
        Missing::Python(error.into())
    }
}

type Found<'py> = Result<Option<Bound<'py, PyAny>>, Missing>;

struct Copier<'py> {
    py: Python<'py>,
    framework: &'static Framework,
    /// Functions by address, with what replaces them. They are alive: the caller holds the first.
    copies: HashMap<usize, Bound<'py, PyAny>>,
    /// The globals of each module, copied.
    globals: HashMap<usize, Bound<'py, PyDict>>,
}

impl<'py> Copier<'py> {
    /// What replaces a value; `None` where it stays.
    fn value(&mut self, name: &str, value: &Bound<'py, PyAny>) -> Found<'py> {
        if let Some(copy) = self.copies.get(&(value.as_ptr() as usize)) {
            return Ok(Some(copy.clone()));
        }
        if let Ok(module) = value.cast::<PyModule>() {
            return counterpart(self.py, self.framework, module.name()?.to_str()?);
        }
        if let Some(class) = detect::class_of(value) {
            if class.framework.memory_type != self.framework.memory_type {
                return Ok(None);
            }
            let numpy = MemoryType::Numpy.framework();
            return Ok(Some(convert::convert_to(value, numpy, &Request::default())?));
        }
        if let Ok(declared) = value.cast::<Declared>() {
            let core = declared.get().core();
            if core.options.execution.memory_type != self.framework.memory_type {
                return Ok(None);
            }
            return self.value(name, core.function.bind(self.py));
        }
        if let Some(found) = self.imported(name, value)? {
            return Ok(Some(found));
        }
        if let Some(globals) = globals_of(value)? {
            return self.function(value, &globals);
        }
        if self.is_instance(value, "functools", "partial")? {
            return self.partial(name, value);
        }
        if self.is_instance(value, "types", "MethodType")? {
            let Some(function) = self.value(name, &value.getattr("__func__")?)? else {
                return Ok(None);
            };
            let class = self.py.import("types")?.getattr("MethodType")?;
            return Ok(Some(class.call1((function, value.getattr("__self__")?))?));
        }
        Ok(None)
    }

    /// What replaces a value that is referred to by a global name. Functions of other modules stay.
    fn global(
        &mut self,
        name: &str,
        value: &Bound<'py, PyAny>,
        globals: &Bound<'py, PyDict>,
    ) -> Found<'py> {
        let inner = match value.cast::<Declared>() {
            Ok(declared) => declared.get().core().function.bind(self.py),
            Err(_) => value,
        };
        match globals_of(inner)? {
            Some(theirs) if !theirs.is(globals) => self.imported(name, value),
            _ => self.value(name, value),
        }
    }

    fn is_instance(
        &self,
        value: &Bound<'py, PyAny>,
        module: &str,
        class: &str,
    ) -> Result<bool, Missing> {
        Ok(value.is_instance(&self.py.import(module)?.getattr(class)?)?)
    }

    fn partial(&mut self, name: &str, value: &Bound<'py, PyAny>) -> Found<'py> {
        let function = value.getattr("func")?;
        let function = self.value(name, &function)?.unwrap_or(function);
        let mut arguments = vec![function];
        for argument in value.getattr("args")?.try_iter()? {
            let argument = argument?;
            arguments.push(self.value(name, &argument)?.unwrap_or(argument));
        }
        let keywords = self.mapping(&value.getattr("keywords")?)?;
        let class = self.py.import("functools")?.getattr("partial")?;
        Ok(Some(class.call(PyTuple::new(self.py, arguments)?, Some(&keywords))?))
    }

    fn mapping(&mut self, mapping: &Bound<'py, PyAny>) -> Result<Bound<'py, PyDict>, Missing> {
        let made = PyDict::new(self.py);
        if let Ok(mapping) = mapping.cast::<PyDict>() {
            for (key, value) in mapping {
                let value = self.value(&key.to_string(), &value)?.unwrap_or(value);
                made.set_item(key, value)?;
            }
        }
        Ok(made)
    }

    /// An object that was imported from one of the framework's modules.
    fn imported(&mut self, name: &str, value: &Bound<'py, PyAny>) -> Found<'py> {
        let py = self.py;
        let home = |object: &Bound<'py, PyAny>| -> Option<String> {
            object.getattr(intern!(py, "__module__")).ok()?.extract().ok()
        };
        let belongs = |home: &Option<String>| {
            home.as_deref().is_some_and(|home| is_part(self.framework, home))
        };
        let class = value.get_type();
        if !belongs(&home(value)) && !belongs(&home(class.as_any())) {
            return Ok(None);
        }
        let own = ["__name__", "name"]
            .iter()
            .find_map(|attribute| value.getattr(*attribute).ok()?.extract::<String>().ok());
        let own = own.unwrap_or_else(|| name.to_owned());
        let modules = py.import("sys")?.getattr("modules")?.cast_into::<PyDict>();
        for (path, module) in modules.map_err(PyErr::from)?.copy()? {
            let path = path.to_string();
            if !is_part(self.framework, &path) {
                continue;
            }
            if !module.getattr(own.as_str()).is_ok_and(|found| found.is(value)) {
                continue;
            }
            if let Ok(Some(host)) = counterpart(py, self.framework, &path)
                && let Ok(found) = host.getattr(own.as_str())
            {
                return Ok(Some(found));
            }
        }
        let class = detect::qualified_name(class.as_any()).unwrap_or_default();
        Err(Missing::Counterpart(format!("{name} ({class}) has no counterpart on the host")))
    }

    /// A copy of a Python function.
    fn function(
        &mut self,
        function: &Bound<'py, PyAny>,
        original: &Bound<'py, PyDict>,
    ) -> Found<'py> {
        let py = self.py;
        let code = function.getattr("__code__")?;
        let mut names = Vec::new();
        self.names(&code, &mut names)?;
        let globals = self.globals_of(original)?;
        // The copy is made and known before what it refers to is looked at: functions may call
        // themselves, and each other.
        let cell_class = py.import("types")?.getattr("CellType")?;
        let closure = function.getattr("__closure__")?;
        let mut cells = Vec::new();
        if !closure.is_none() {
            for _ in 0..closure.len()? {
                cells.push(cell_class.call0()?);
            }
        }
        let argdefs = function.getattr("__defaults__")?;
        let cells_tuple = PyTuple::new(py, &cells)?;
        let closure_of =
            if cells.is_empty() { py.None().into_bound(py) } else { cells_tuple.into_any() };
        let name = function.getattr("__name__")?;
        let class = py.import("types")?.getattr("FunctionType")?;
        let copy = class.call1((&code, &globals, name, &argdefs, closure_of))?;
        self.copies.insert(function.as_ptr() as usize, copy.clone());

        for (index, cell) in cells.iter().enumerate() {
            let content = closure.get_item(index)?.getattr("cell_contents");
            // A cell that is still empty stays so.
            let Ok(content) = content else { continue };
            let new = self.value("a closure", &content)?.unwrap_or(content);
            cell.setattr("cell_contents", new)?;
        }
        for name in names {
            let Some(value) = original.get_item(&name)? else { continue };
            if let Some(new) = self.global(&name, &value, original)? {
                globals.set_item(&name, new)?;
            }
        }
        if !argdefs.is_none() {
            let mut defaults = Vec::new();
            for value in argdefs.try_iter()? {
                let value = value?;
                defaults.push(self.value("a default", &value)?.unwrap_or(value));
            }
            copy.setattr("__defaults__", PyTuple::new(py, defaults)?)?;
        }
        let keywords = function.getattr("__kwdefaults__")?;
        if !keywords.is_none() {
            copy.setattr("__kwdefaults__", self.mapping(&keywords)?)?;
        }
        Ok(Some(copy))
    }

    /// The global names that a code object and those inside it use.
    fn names(&self, code: &Bound<'py, PyAny>, names: &mut Vec<String>) -> Result<(), Missing> {
        names.extend(code.getattr("co_names")?.extract::<Vec<String>>()?);
        let dis = self.py.import("dis")?;
        let free: Vec<String> = code.getattr("co_freevars")?.extract()?;
        for instruction in dis.call_method1("get_instructions", (code,))?.try_iter()? {
            let instruction = instruction?;
            let operation: String = instruction.getattr("opname")?.extract()?;
            let writes = match operation.as_str() {
                "STORE_GLOBAL" | "DELETE_GLOBAL" => true,
                "STORE_DEREF" | "DELETE_DEREF" => {
                    let name: String = instruction.getattr("argval")?.extract()?;
                    free.contains(&name)
                }
                _ => false,
            };
            if writes {
                let name = code.getattr("co_name")?;
                return Err(Missing::Counterpart(format!(
                    "{name} writes to a variable outside of it (global or nonlocal)"
                )));
            }
        }
        for constant in code.getattr("co_consts")?.try_iter()? {
            let constant = constant?;
            if constant.hasattr(intern!(self.py, "co_names"))? {
                self.names(&constant, names)?;
            }
        }
        Ok(())
    }

    /// The copied globals of a module, in which imports lead to the host modules.
    fn globals_of(&mut self, original: &Bound<'py, PyDict>) -> Result<Bound<'py, PyDict>, Missing> {
        let address = original.as_ptr() as usize;
        if let Some(globals) = self.globals.get(&address) {
            return Ok(globals.clone());
        }
        let (py, framework) = (self.py, self.framework);
        let globals = original.copy()?;
        let builtins = py.import("builtins")?;
        let real = builtins.getattr("__import__")?.unbind();
        let import =
            PyCFunction::new_closure(py, Some(c"__import__"), None, move |args, kwargs| {
                let py = args.py();
                let path: String = args.get_item(0)?.extract()?;
                let level: i64 = match (args.get_item(4), kwargs) {
                    (Ok(level), _) => level.extract()?,
                    (_, Some(kwargs)) => {
                        kwargs.get_item("level")?.map_or(Ok(0), |level| level.extract())?
                    }
                    _ => 0,
                };
                let from = args.get_item(3).is_ok_and(|list| list.is_truthy().unwrap_or(false));
                // Without names to import from it, a statement binds the first part of the path.
                let wanted = if from { &path } else { path.split('.').next().unwrap_or(&path) };
                if level == 0
                    && is_part(framework, &path)
                    && let Some(module) = counterpart_of_path(py, framework, &path, wanted)?
                {
                    return Ok(module.unbind());
                }
                real.bind(py).call(args, kwargs).map(Bound::unbind)
            })?;
        let own = builtins.dict().copy()?;
        own.set_item("__import__", import)?;
        globals.set_item("__builtins__", own)?;
        self.globals.insert(address, globals.clone());
        Ok(globals)
    }
}

/// The globals of a function that is written in Python.
fn globals_of<'py>(value: &Bound<'py, PyAny>) -> Result<Option<Bound<'py, PyDict>>, Missing> {
    if !value.hasattr(intern!(value.py(), "__code__"))? {
        return Ok(None);
    }
    let globals = value.getattr(intern!(value.py(), "__globals__"));
    Ok(globals.ok().and_then(|globals| globals.cast_into::<PyDict>().ok()))
}

/// Whether a module is the framework's, or is one that a host module stands in for.
fn is_part(framework: &Framework, path: &str) -> bool {
    framework.host_modules.iter().any(|(from, _)| {
        let below = |path: &str, of: &str| {
            path.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        below(path, from) || below(from, path)
    })
}

/// The host module in the place of one of the framework's. Of a package whose children alone have
/// counterparts (`cupyx`), an object with these children.
fn counterpart<'py>(
    py: Python<'py>,
    framework: &'static Framework,
    path: &str,
) -> Result<Option<Bound<'py, PyAny>>, Missing> {
    let below = |rest: &str| rest.is_empty() || rest.starts_with('.');
    for (from, to) in framework.host_modules {
        if let Some(rest) = path.strip_prefix(from).filter(|rest| below(rest)) {
            let name = format!("{to}{rest}");
            return match py.import(PyString::new(py, &name)) {
                Ok(module) => Ok(Some(module.into_any())),
                Err(_) => Err(Missing::Counterpart(format!(
                    "the module {path} has no counterpart {name}"
                ))),
            };
        }
        if let Some(rest) = from.strip_prefix(path).and_then(|rest| rest.strip_prefix('.')) {
            let class = py.import("types")?.getattr("SimpleNamespace")?;
            let mut found = py.import(*to)?.into_any();
            for child in rest.rsplit('.') {
                let attributes = PyDict::new(py);
                attributes.set_item(child, found)?;
                found = class.call((), Some(&attributes))?;
            }
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// What an import statement binds: the whole path is imported, and `wanted` is given.
fn counterpart_of_path<'py>(
    py: Python<'py>,
    framework: &'static Framework,
    path: &str,
    wanted: &str,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let failed = |missing| match missing {
        Missing::Counterpart(what) => pyo3::exceptions::PyImportError::new_err(what),
        Missing::Python(error) => error,
    };
    if counterpart(py, framework, path).map_err(failed)?.is_none() {
        return Ok(None);
    }
    counterpart(py, framework, wanted).map_err(failed)
}
