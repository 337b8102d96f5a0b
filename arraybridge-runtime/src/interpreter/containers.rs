//! The containers whose arrays are converted: lists, tuples, dicts and dataclasses.

use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use super::tuples::{plain_tuple, rebuilt};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    List,
    Tuple,
    Dict,
    Dataclass,
}

/// A list, a dict, a plain or named tuple, or an instance of a dataclass. Subclasses of list and dict
/// are not containers: nothing is known about how to make one.
pub struct Container<'a, 'py> {
    value: &'a Bound<'py, PyAny>,
    kind: Kind,
}

impl<'a, 'py> Container<'a, 'py> {
    /// The container that an object is, if it is one.
    #[inline]
    pub fn of(value: &'a Bound<'py, PyAny>) -> Option<Container<'a, 'py>> {
        let kind = if value.is_exact_instance_of::<PyList>() {
            Kind::List
        } else if value.is_exact_instance_of::<PyDict>() {
            Kind::Dict
        } else if plain_tuple(value).is_some() {
            Kind::Tuple
        } else if is_dataclass(value) {
            Kind::Dataclass
        } else {
            return None;
        };
        Some(Container { value, kind })
    }

    /// Whether it is a tuple.
    pub fn is_tuple(&self) -> bool {
        self.kind == Kind::Tuple
    }

    /// Whether it is a list or a tuple.
    pub fn is_sequence(&self) -> bool {
        matches!(self.kind, Kind::List | Kind::Tuple)
    }

    /// Whether it is an instance of a dataclass.
    pub fn is_dataclass(&self) -> bool {
        self.kind == Kind::Dataclass
    }

    /// Its elements, values or fields, in order.
    ///
    /// # Errors
    ///
    /// What a property of a dataclass raises.
    pub fn items(&self) -> PyResult<Vec<Bound<'py, PyAny>>> {
        match self.kind {
            Kind::List | Kind::Tuple => self.value.try_iter()?.collect(),
            Kind::Dict => Ok(self.value.cast::<PyDict>()?.values().iter().collect()),
            Kind::Dataclass => Ok(self.fields()?.into_iter().map(|(_, value)| value).collect()),
        }
    }

    /// One like it with other items. An instance of a dataclass is copied, not initialised again.
    ///
    /// # Errors
    ///
    /// What a named tuple or a dataclass raises when it is made anew.
    pub fn with(&self, items: Vec<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        let py = self.value.py();
        match self.kind {
            Kind::List | Kind::Tuple => rebuilt(self.value, items),
            Kind::Dict => {
                let dict = self.value.cast::<PyDict>()?.copy()?;
                for (key, item) in dict.keys().iter().zip(items) {
                    dict.set_item(key, item)?;
                }
                Ok(dict.into_any())
            }
            Kind::Dataclass => {
                let copy = py.import(intern!(py, "copy"))?.getattr(intern!(py, "copy"))?;
                let copy = copy.call1((self.value,))?;
                // The dataclass may be frozen.
                let set = py.get_type::<PyAny>().getattr(intern!(py, "__setattr__"))?;
                for ((name, before), item) in self.fields()?.into_iter().zip(items) {
                    if !item.is(&before) {
                        set.call1((&copy, name, item))?;
                    }
                }
                Ok(copy)
            }
        }
    }

    /// The fields of a dataclass that have a value.
    fn fields(&self) -> PyResult<Vec<(Bound<'py, PyString>, Bound<'py, PyAny>)>> {
        let py = self.value.py();
        let fields = py.import(intern!(py, "dataclasses"))?.getattr(intern!(py, "fields"))?;
        let mut found = Vec::new();
        for field in fields.call1((self.value,))?.try_iter()? {
            let name = field?.getattr(intern!(py, "name"))?.cast_into::<PyString>()?;
            if let Some(value) = self.value.getattr_opt(&name)? {
                found.push((name, value));
            }
        }
        Ok(found)
    }
}

/// Whether an object is an instance of a dataclass.
#[inline]
fn is_dataclass(value: &Bound<'_, PyAny>) -> bool {
    let class = value.get_type();
    // SAFETY: the thread is attached, and `class` is a type object that is alive here.
    let flags = unsafe { ffi::PyType_GetFlags(class.as_type_ptr()) };
    // Numbers, strings and None are ruled out without looking anything up.
    flags & ffi::Py_TPFLAGS_HEAPTYPE != 0
        && class.hasattr(intern!(value.py(), "__dataclass_fields__")).unwrap_or(false)
}
