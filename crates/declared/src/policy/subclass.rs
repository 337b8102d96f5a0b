//! Results of classes that programs derive from those of a framework. Their attributes go with what is made of them.

use arraybridge_runtime::intern;
use pyo3::prelude::*;

use arraybridge_runtime::framework::detect::{self, Role};
use arraybridge_runtime::interpreter::error::Result;
use arraybridge_runtime::interpreter::package::Part;

/// The first of the results that an array is made of, if it is of a derived class.
#[derive(Debug)]
pub struct Subclass<'py> {
    first: Bound<'py, PyAny>,
    /// True if the others are of the same class and have the same attributes.
    is_common: bool,
}

impl<'py> Subclass<'py> {
    /// The class of the first result; `None` for a class of the framework itself.
    #[inline]
    pub fn of(first: &Bound<'py, PyAny>) -> Option<Subclass<'py>> {
        let class = detect::class_of(first)?;
        let is_derived = !class.own && matches!(class.role, Role::Array);
        is_derived.then(|| Subclass { first: first.clone(), is_common: true })
    }

    /// Looks at another result.
    #[cold]
    pub fn meet(&mut self, other: &Bound<'py, PyAny>) -> Result<()> {
        if self.is_common && !other.is(&self.first) {
            let wrappers = Part::Wrappers.get(other.py())?;
            let arguments = (&self.first, other);
            let same =
                wrappers.call_method1(intern!(other.py(), "_has_same_attributes"), arguments)?;
            self.is_common = same.is_truthy()?;
        }
        Ok(())
    }

    /// What was made of all results, as one of their class.
    #[cold]
    pub fn give(&self, made: Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        let wrappers = Part::Wrappers.get(made.py())?;
        Ok(wrappers.call_method1("_of_class", (&self.first, made, self.is_common))?)
    }
}
