//! The host modules that stand in for a framework's modules.

use pyo3::exceptions::PyImportError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyString, PyTuple};

use super::{CopyError, Replacement};
use crate::framework::detect;
use crate::framework::spec::Framework;

/// What follows `parent` in the path of a module, if the module is `parent` or inside of it.
fn path_below<'a>(path: &'a str, parent: &str) -> Option<&'a str> {
    path.strip_prefix(parent).filter(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Whether a module belongs to the framework: it has a host module, or is inside of one that has, or is
/// a package with such modules.
fn is_part(framework: &Framework, path: &str) -> bool {
    let mut modules = framework.host_modules.iter();
    modules.any(|(from, _)| path_below(path, from).is_some() || path_below(from, path).is_some())
}

/// The host module for one of the framework's modules; `None` for any other module.
///
/// For a package that has no counterpart itself, but whose children have one (`cupyx`), it is an object
/// with these children.
pub(super) fn counterpart<'py>(
    py: Python<'py>,
    framework: &'static Framework,
    path: &str,
) -> Replacement<'py> {
    for (from, to) in framework.host_modules {
        if let Some(rest) = path_below(path, from) {
            let name = format!("{to}{rest}");
            let module = py.import(PyString::new(py, &name)).map_err(|_| {
                CopyError::NoCounterpart(format!("the module {path} has no counterpart {name}"))
            })?;
            return Ok(Some(module.into_any()));
        }
        if let Some(rest) = path_below(from, path).and_then(|rest| rest.strip_prefix('.')) {
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

/// The host's counterpart of an object that was imported from one of the framework's modules; `None`
/// for any other object. Messages call it by `name`.
pub(super) fn imported_counterpart<'py>(
    framework: &'static Framework,
    name: &str,
    value: &Bound<'py, PyAny>,
) -> Replacement<'py> {
    let py = value.py();
    let belongs = |object: &Bound<'py, PyAny>| {
        let home = object.getattr(intern!(py, "__module__")).ok();
        let home = home.and_then(|home| home.extract::<String>().ok());
        home.is_some_and(|home| is_part(framework, &home))
    };
    let class = value.get_type();
    if !belongs(value) && !belongs(class.as_any()) {
        return Ok(None);
    }
    let own_name = ["__name__", "name"]
        .iter()
        .find_map(|attribute| value.getattr(*attribute).ok()?.extract::<String>().ok());
    let own_name = own_name.unwrap_or_else(|| name.to_owned());
    let modules = py.import("sys")?.getattr("modules")?.cast_into::<PyDict>();
    for (path, module) in modules.map_err(PyErr::from)?.copy()? {
        let path = path.to_string();
        if !is_part(framework, &path)
            || !module.getattr(own_name.as_str()).is_ok_and(|found| found.is(value))
        {
            continue;
        }
        if let Ok(Some(host)) = counterpart(py, framework, &path)
            && let Ok(found) = host.getattr(own_name.as_str())
        {
            return Ok(Some(found));
        }
    }
    let class = detect::qualified_name(class.as_any()).unwrap_or_default();
    Err(CopyError::NoCounterpart(format!("{name} ({class}) has no counterpart on the host")))
}

/// An `__import__` that imports host modules in place of the framework's modules, and calls the
/// original one for all others.
pub(super) fn import_hook<'py>(
    framework: &'static Framework,
    original: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyCFunction>> {
    let py = original.py();
    let original = original.unbind();
    PyCFunction::new_closure(py, Some(c"__import__"), None, move |args, kwargs| {
        let py = args.py();
        match import_counterpart(framework, args, kwargs)? {
            Some(module) => Ok::<_, PyErr>(module.unbind()),
            None => original.bind(py).call(args, kwargs).map(Bound::unbind),
        }
    })
}

/// What an import statement binds, if it imports one of the framework's modules. The arguments are
/// those of `__import__`: name, globals, locals, fromlist, level.
fn import_counterpart<'py>(
    framework: &'static Framework,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = args.py();
    let path: String = args.get_item(0)?.extract()?;
    let level: i64 = match (args.get_item(4), kwargs) {
        (Ok(level), _) => level.extract()?,
        (_, Some(kwargs)) => kwargs.get_item("level")?.map_or(Ok(0), |level| level.extract())?,
        _ => 0,
    };
    if level != 0 || !is_part(framework, &path) {
        return Ok(None);
    }
    let failed = |failure| match failure {
        CopyError::NoCounterpart(what) => PyImportError::new_err(what),
        CopyError::Python(error) => error,
    };
    // The whole path is imported. Without names to import from it, the first part is bound.
    let Some(module) = counterpart(py, framework, &path).map_err(failed)? else { return Ok(None) };
    let has_names = args.get_item(3).is_ok_and(|names| names.is_truthy().unwrap_or(false));
    match path.split_once('.') {
        Some((first, _)) if !has_names => counterpart(py, framework, first).map_err(failed),
        _ => Ok(Some(module)),
    }
}
