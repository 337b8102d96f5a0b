//! Structs that declared functions return as named tuples.

use crate::interpreter::once::Once;
use crate::interpreter::package::Part;
use std::cell::Cell;

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use super::RustCall;
use crate::interpreter::error::Result;

/// A struct that a declared function returns as a named tuple. `#[derive(NamedTuple)]` implements it.
pub trait NamedTuple {
    /// Gives the fields.
    ///
    /// # Errors
    ///
    /// The reason why a field cannot be given.
    fn give<'py>(self, call: &RustCall<'_, 'py>) -> Result<Bound<'py, PyAny>>;
}

/// The class of a named tuple, which `export` makes.
pub struct TupleClass {
    name: &'static str,
    docs: &'static str,
    module: &'static str,
    /// The fields, each with its type as Python's type checkers know it.
    fields: &'static [(&'static str, &'static str)],
    class: PyOnceLock<Py<PyAny>>,
}

/// A named tuple, as the derive macro registers it.
pub struct TupleEntry(pub &'static TupleClass);

inventory::collect!(TupleEntry);

impl TupleClass {
    /// The class of a struct.
    pub const fn new(
        name: &'static str,
        docs: &'static str,
        module: &'static str,
        fields: &'static [(&'static str, &'static str)],
    ) -> TupleClass {
        TupleClass { name, docs, module, fields, class: PyOnceLock::new() }
    }

    fn get<'py>(&self, py: Python<'py>, module: Option<&str>) -> PyResult<&Bound<'py, PyAny>> {
        let class = self.class.try_once(py, || self.make(py, module))?;
        Ok(class.bind(py))
    }

    fn make(&self, py: Python<'_>, module: Option<&str>) -> PyResult<Py<PyAny>> {
        let module = module.unwrap_or(self.module);
        let make = Part::Export.get(py)?.getattr("named_tuple")?;
        let class = make.call1((self.name, self.docs, module, self.fields, tuple_names()))?;
        Ok(class.unbind())
    }
}

/// The names of all named tuples of this extension crate.
pub(super) fn tuple_names() -> Vec<&'static str> {
    inventory::iter::<TupleEntry>.into_iter().map(|entry| entry.0.name).collect()
}

/// Adds the classes of all named tuples of this extension crate to its module.
pub(super) fn add_classes(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let name = module.name()?;
    let mut all: Vec<_> = inventory::iter::<TupleEntry>.into_iter().map(|entry| entry.0).collect();
    all.sort_by_key(|class| (class.name, class.module));
    if let Some(pair) = all.windows(2).find(|pair| pair[0].name == pair[1].name) {
        let text = format!(
            "two named tuples are called {}, in {} and in {}; rename one of them",
            pair[0].name, pair[0].module, pair[1].module
        );
        return Err(PyImportError::new_err(text));
    }
    for class in all {
        module.add(class.name, class.get(module.py(), Some(name.to_str()?))?)?;
    }
    Ok(())
}

/// A result whose type is only known to the compiler: a struct that is a named tuple, or a value.
///
/// `(&result).__give(call)` is the method of [`GiveTuple`] where that exists. Otherwise it is the method of
/// [`GiveValue`], which needs one more reference.
pub struct Opaque<T>(Cell<Option<T>>);

impl<T> Opaque<T> {
    /// A result.
    pub fn new(value: T) -> Opaque<T> {
        Opaque(Cell::new(Some(value)))
    }

    fn take(&self) -> T {
        self.0.take().expect("a result is given once")
    }
}

/// A result that is a named tuple.
pub trait GiveTuple {
    /// Gives it.
    fn __give<'py>(&self, call: &RustCall<'_, 'py>) -> Result<Bound<'py, PyAny>>;
}

impl<T: NamedTuple> GiveTuple for Opaque<T> {
    fn __give<'py>(&self, call: &RustCall<'_, 'py>) -> Result<Bound<'py, PyAny>> {
        self.take().give(call)
    }
}

/// A result that PyO3 converts.
pub trait GiveValue<T> {
    /// Gives it.
    fn __give<'py>(&self, call: &RustCall<'_, 'py>) -> Result<Bound<'py, PyAny>>
    where
        T: IntoPyObject<'py>;
}

impl<T> GiveValue<T> for &Opaque<T> {
    fn __give<'py>(&self, call: &RustCall<'_, 'py>) -> Result<Bound<'py, PyAny>>
    where
        T: IntoPyObject<'py>,
    {
        call.give_value(self.take())
    }
}

impl<'py> RustCall<'_, 'py> {
    /// Gives fields as a named tuple.
    pub fn give_named_tuple(
        &self,
        class: &TupleClass,
        fields: Vec<Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyAny>> {
        let make = crate::intern!(self.py, "_make");
        Ok(class.get(self.py, None)?.call_method1(make, (fields,))?)
    }
}
