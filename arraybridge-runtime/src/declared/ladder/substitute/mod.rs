//! A copy of a function that works on host arrays.
//!
//! A framework without host arrays, such as CuPy, names host modules that have the same functions. The
//! copy refers to the host modules wherever the function refers to modules of the framework: by a
//! global name, a default, a closure or an import in its body. No module is changed: the copy has
//! globals of its own.

mod function;
mod modules;

use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyModule, PyTuple};

use crate::convert::{self, Request};
use crate::declared::Declared;
use crate::framework::detect;
use crate::framework::generated::MemoryType;
use crate::framework::spec::Framework;
use crate::interpreter::error::{Error, first_line};
use modules::{counterpart, imported_counterpart};

/// The copy of a function for the host.
///
/// # Errors
///
/// What has no counterpart on the host, in words.
pub fn for_host<'py>(
    function: &Bound<'py, PyAny>,
    framework: &'static Framework,
) -> Result<Bound<'py, PyAny>, String> {
    let py = function.py();
    let mut copier = Copier { py, framework, copies: HashMap::new(), globals: HashMap::new() };
    match copier.replace("the function", function) {
        Ok(Some(copy)) => Ok(copy),
        Ok(None) => {
            Err("the function is not written in Python, or is in another module".to_owned())
        }
        Err(CopyError::NoCounterpart(what)) => Err(what),
        Err(CopyError::Python(error)) => Err(first_line(py, &error)),
    }
}

/// Why a function cannot be copied.
enum CopyError {
    /// Something has no counterpart on the host, in words.
    NoCounterpart(String),
    /// Python raised an exception.
    Python(PyErr),
}

impl From<PyErr> for CopyError {
    fn from(error: PyErr) -> CopyError {
        CopyError::Python(error)
    }
}

impl From<Error> for CopyError {
    fn from(error: Error) -> CopyError {
        CopyError::Python(error.into())
    }
}

/// What replaces a value; `None` if the value stays.
type Replacement<'py> = Result<Option<Bound<'py, PyAny>>, CopyError>;

struct Copier<'py> {
    py: Python<'py>,
    framework: &'static Framework,
    /// The copies of functions, by the functions' addresses. The function that is copied keeps all of
    /// them alive, so no address is reused.
    copies: HashMap<usize, Bound<'py, PyAny>>,
    /// The copies of modules' globals, by the globals' addresses.
    globals: HashMap<usize, Bound<'py, PyDict>>,
}

impl<'py> Copier<'py> {
    /// Replaces a value that the function refers to. Messages call it by `name`.
    fn replace(&mut self, name: &str, value: &Bound<'py, PyAny>) -> Replacement<'py> {
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
        if let Some(declared) = Declared::of(value) {
            let definition = declared.get().definition();
            if definition.options.execution.memory_type != self.framework.memory_type {
                return Ok(None);
            }
            return self.replace(name, definition.function.bind(self.py));
        }
        if let Some(found) = imported_counterpart(self.framework, name, value)? {
            return Ok(Some(found));
        }
        if let Some(globals) = globals_of(value)? {
            return self.copy_function(value, &globals).map(Some);
        }
        if self.is_instance(value, "functools", "partial")? {
            return self.copy_partial(name, value).map(Some);
        }
        if self.is_instance(value, "types", "MethodType")? {
            return self.copy_method(name, value);
        }
        Ok(None)
    }

    /// Replaces a value that the function refers to by a global name. Functions of other modules stay.
    fn replace_global(
        &mut self,
        name: &str,
        value: &Bound<'py, PyAny>,
        globals: &Bound<'py, PyDict>,
    ) -> Replacement<'py> {
        let declared = Declared::of(value);
        let function = declared.as_ref().map(|declared| &declared.get().definition().function);
        match globals_of(function.map_or(value, |function| function.bind(self.py)))? {
            Some(theirs) if !theirs.is(globals) => {
                imported_counterpart(self.framework, name, value)
            }
            _ => self.replace(name, value),
        }
    }

    fn is_instance(
        &self,
        value: &Bound<'py, PyAny>,
        module: &str,
        class: &str,
    ) -> Result<bool, CopyError> {
        Ok(value.is_instance(&self.py.import(module)?.getattr(class)?)?)
    }

    fn copy_partial(
        &mut self,
        name: &str,
        partial: &Bound<'py, PyAny>,
    ) -> Result<Bound<'py, PyAny>, CopyError> {
        let function = partial.getattr("func")?;
        let function = self.replace(name, &function)?.unwrap_or(function);
        let mut arguments = vec![function];
        for argument in partial.getattr("args")?.try_iter()? {
            let argument = argument?;
            arguments.push(self.replace(name, &argument)?.unwrap_or(argument));
        }
        let keywords = self.copy_mapping(&partial.getattr("keywords")?)?;
        let class = self.py.import("functools")?.getattr("partial")?;
        Ok(class.call(PyTuple::new(self.py, arguments)?, Some(&keywords))?)
    }

    fn copy_method(&mut self, name: &str, method: &Bound<'py, PyAny>) -> Replacement<'py> {
        let function = self.replace(name, &method.getattr("__func__")?)?;
        let Some(function) = function else { return Ok(None) };
        let class = self.py.import("types")?.getattr("MethodType")?;
        Ok(Some(class.call1((function, method.getattr("__self__")?))?))
    }

    fn copy_mapping(
        &mut self,
        mapping: &Bound<'py, PyAny>,
    ) -> Result<Bound<'py, PyDict>, CopyError> {
        let copy = PyDict::new(self.py);
        if let Ok(mapping) = mapping.cast::<PyDict>() {
            for (key, value) in mapping {
                let value = self.replace(&key.to_string(), &value)?.unwrap_or(value);
                copy.set_item(key, value)?;
            }
        }
        Ok(copy)
    }
}

/// The globals of a function that is written in Python; `None` for any other object.
fn globals_of<'py>(value: &Bound<'py, PyAny>) -> Result<Option<Bound<'py, PyDict>>, CopyError> {
    if !value.hasattr(pyo3::intern!(value.py(), "__code__"))? {
        return Ok(None);
    }
    let globals = value.getattr(pyo3::intern!(value.py(), "__globals__"));
    Ok(globals.ok().and_then(|globals| globals.cast_into::<PyDict>().ok()))
}
