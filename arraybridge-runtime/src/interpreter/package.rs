//! The `arraybridge` package, as far as Rust code calls its Python code.
//!
//! Rust names one module of it, `_core`, which is the package's own extension module. There the package leaves
//! each [`Part`], or a function that imports it. Extension modules find the parts in the same place.

use crate::intern;
use crate::interpreter::once::Once;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyModule};

/// The package's own extension module.
///
/// # Errors
///
/// `ImportError` if the package is missing.
pub fn core(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import(intern!(py, "arraybridge._core"))
}

/// The attribute of [`core`] with the parts.
pub const PARTS: &str = "_PARTS";

macro_rules! parts {
    ($($(#[$docs:meta])* $part:ident = $name:literal,)*) => {
        /// A part of the package's Python code, and what of it is called.
        #[derive(Clone, Copy, Debug)]
        pub enum Part {
            $($(#[$docs])* $part,)*
        }

        impl Part {
            const NAMES: &[&str] = &[$($name),*];
        }
    };
}

parts! {
    /// `_BARS`, the context variable with the maker of bars.
    Blocks = "blocks",
    /// `way(table) -> str`, `numbers(table) -> ndarray | None`, `inexact(table, array) -> str | None`.
    Columns = "columns",
    /// `outside(declared, *args, **kwargs)`: a call that `torch.compile` leaves outside its graph.
    Dynamo = "dynamo",
    /// The classes of exceptions and warnings, by name.
    Exceptions = "exceptions",
    /// `declare(module, exported, tuples) -> list[(str, function)]`, `named_tuple(name, docs, module, fields, names)`.
    Export = "export",
    /// `about(function)`, `dress(declared, ..)`, `function_of(declared, function)`.
    Function = "function",
    /// `call(function, args, kwargs, added)`, `check(framework, name, options)`, `rule(function, ..)`.
    Gradients = "gradients",
    /// `clear_frames(error)`, `for_host(function, framework, modules) -> function | str`.
    Ladder = "ladder",
    /// What reads and writes arrays part by part: `stand_in`, `read`, `write`, `rows`, `chunks`, `overlap` and others.
    Lazy = "lazy",
    /// `Modes()`, whose `run(function, *arguments)` calls a function in the modes of the thread that made it.
    Modes = "modes",
    /// `check_names(options)`, `read(options) -> dict`.
    Options = "options",
    /// `show_bytes(bar, done, total)`.
    Progress = "progress",
    /// `traits(..)` of a call, and the class `Room`, which remembers calls.
    Room = "room",
    /// The classes of coroutines and generators of declared functions, by name.
    Steps = "steps",
    /// `discover(package) -> bool`: reads the tables of installed packages, unless an object of `package` needs none;
    /// `missing(error) -> str`: where a table names an attribute that is not there.
    Tables = "tables",
    /// Objects with an array inside: `_is_registered(class)`, `_opened(object)`, `_rewrapped(..)` and others.
    Wrappers = "wrappers",
}

impl Part {
    /// The part, which is imported when it is first used.
    ///
    /// # Errors
    ///
    /// `ImportError` if the package is missing, and what an import raises.
    pub fn get(self, py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
        static FOUND: [PyOnceLock<Py<PyAny>>; Part::NAMES.len()] =
            [const { PyOnceLock::new() }; Part::NAMES.len()];
        let find = || {
            let parts = core(py)?.getattr(PARTS)?.cast_into::<PyDict>()?;
            let part = parts.as_any().get_item(Part::NAMES[self as usize])?;
            // To find a module that is there runs no Python code, in which a pending signal would be handled.
            let is_there = part.is_instance_of::<PyModule>();
            Ok::<_, PyErr>(if is_there { part } else { part.call0()? }.unbind())
        };
        Ok(FOUND[self as usize].try_once(py, find)?.bind(py))
    }

    /// An attribute of the part, which is kept in `cell`.
    ///
    /// # Errors
    ///
    /// Those of [`Part::get`], and `AttributeError`.
    #[inline]
    pub fn attribute<'py>(
        self,
        py: Python<'py>,
        cell: &'py PyOnceLock<Py<PyAny>>,
        name: &str,
    ) -> PyResult<&'py Bound<'py, PyAny>> {
        let find = || self.get(py)?.getattr(name).map(Bound::unbind);
        Ok(cell.try_once(py, find)?.bind(py))
    }
}
