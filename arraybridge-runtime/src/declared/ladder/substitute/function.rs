//! Copies of Python functions, and of the globals that they refer to.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::modules::import_hook;
use super::{Copier, CopyError};

impl<'py> Copier<'py> {
    /// Copies a Python function.
    pub(super) fn copy_function(
        &mut self,
        function: &Bound<'py, PyAny>,
        original: &Bound<'py, PyDict>,
    ) -> Result<Bound<'py, PyAny>, CopyError> {
        let py = self.py;
        let code = function.getattr("__code__")?;
        let mut names = Vec::new();
        self.collect_names(&code, &mut names)?;
        let globals = self.copy_globals(original)?;
        let closure = function.getattr("__closure__")?;
        let cells = self.empty_cells(&closure)?;
        let class = py.import("types")?.getattr("FunctionType")?;
        let (name, defaults) = (function.getattr("__name__")?, function.getattr("__defaults__")?);
        let copy = class.call1((&code, &globals, name, &defaults, &cells))?;
        // The copy is registered before what it refers to is copied: functions may refer to
        // themselves, and to one another.
        self.copies.insert(function.as_ptr() as usize, copy.clone());
        self.fill_cells(&closure, cells.as_ref())?;
        for name in names {
            let Some(value) = original.get_item(&name)? else { continue };
            if let Some(replacement) = self.replace_global(&name, &value, original)? {
                globals.set_item(&name, replacement)?;
            }
        }
        if !defaults.is_none() {
            copy.setattr("__defaults__", self.copy_defaults(&defaults)?)?;
        }
        let keyword_defaults = function.getattr("__kwdefaults__")?;
        if !keyword_defaults.is_none() {
            copy.setattr("__kwdefaults__", self.copy_mapping(&keyword_defaults)?)?;
        }
        Ok(copy)
    }

    /// As many new cells as a closure has; `None` for no closure.
    fn empty_cells(
        &self,
        closure: &Bound<'py, PyAny>,
    ) -> Result<Option<Bound<'py, PyTuple>>, CopyError> {
        if closure.is_none() {
            return Ok(None);
        }
        let class = self.py.import("types")?.getattr("CellType")?;
        let cells = (0..closure.len()?).map(|_| class.call0()).collect::<PyResult<Vec<_>>>()?;
        Ok(Some(PyTuple::new(self.py, cells)?))
    }

    fn fill_cells(
        &mut self,
        closure: &Bound<'py, PyAny>,
        cells: Option<&Bound<'py, PyTuple>>,
    ) -> Result<(), CopyError> {
        for (index, cell) in cells.into_iter().flatten().enumerate() {
            // A cell that is still empty stays empty.
            let Ok(value) = closure.get_item(index)?.getattr("cell_contents") else { continue };
            let value = self.replace("a closure", &value)?.unwrap_or(value);
            cell.setattr("cell_contents", value)?;
        }
        Ok(())
    }

    fn copy_defaults(
        &mut self,
        defaults: &Bound<'py, PyAny>,
    ) -> Result<Bound<'py, PyTuple>, CopyError> {
        let mut copies = Vec::new();
        for value in defaults.try_iter()? {
            let value = value?;
            copies.push(self.replace("a default", &value)?.unwrap_or(value));
        }
        Ok(PyTuple::new(self.py, copies)?)
    }

    /// Collects the global names that a code object and those inside it refer to. Code that writes to
    /// a variable outside of itself cannot be copied.
    fn collect_names(
        &self,
        code: &Bound<'py, PyAny>,
        names: &mut Vec<String>,
    ) -> Result<(), CopyError> {
        if self.writes_outside(code)? {
            let name = code.getattr("co_name")?;
            return Err(CopyError::NoCounterpart(format!(
                "{name} writes to a variable outside of it (global or nonlocal)"
            )));
        }
        names.extend(code.getattr("co_names")?.extract::<Vec<String>>()?);
        for constant in code.getattr("co_consts")?.try_iter()? {
            let constant = constant?;
            if constant.hasattr(intern!(self.py, "co_names"))? {
                self.collect_names(&constant, names)?;
            }
        }
        Ok(())
    }

    fn writes_outside(&self, code: &Bound<'py, PyAny>) -> Result<bool, CopyError> {
        let dis = self.py.import("dis")?;
        let free: Vec<String> = code.getattr("co_freevars")?.extract()?;
        for instruction in dis.call_method1("get_instructions", (code,))?.try_iter()? {
            let instruction = instruction?;
            let operation: String = instruction.getattr("opname")?.extract()?;
            match operation.as_str() {
                "STORE_GLOBAL" | "DELETE_GLOBAL" => return Ok(true),
                "STORE_DEREF" | "DELETE_DEREF" => {
                    let name: String = instruction.getattr("argval")?.extract()?;
                    if free.contains(&name) {
                        return Ok(true);
                    }
                }
                _ => {}
            }
        }
        Ok(false)
    }

    /// Copies the globals of a module. Imports by functions with these globals lead to host modules.
    fn copy_globals(
        &mut self,
        original: &Bound<'py, PyDict>,
    ) -> Result<Bound<'py, PyDict>, CopyError> {
        let address = original.as_ptr() as usize;
        if let Some(globals) = self.globals.get(&address) {
            return Ok(globals.clone());
        }
        let globals = original.copy()?;
        let builtins = self.py.import("builtins")?;
        let own = builtins.dict().copy()?;
        let import = builtins.getattr("__import__")?;
        own.set_item("__import__", import_hook(self.framework, import)?)?;
        globals.set_item("__builtins__", own)?;
        self.globals.insert(address, globals.clone());
        Ok(globals)
    }
}
