//! The containers whose arrays are converted: lists, tuples, mappings, dataclasses, classes of attrs and payloads.

use crate::intern;
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyDict, PyFloat, PyInt, PyList, PyMappingProxy, PyString, PyTuple, PyType,
};

use super::classes::{self, ClassCache};
use super::tuples::{maker, rebuilt};

/// The greatest depth to which containers may be nested.
pub const DEEPEST: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    List,
    Tuple,
    Dict,
    /// Another mapping, or a subclass of dict, whose methods are its own. It may have fields as well.
    Mapping {
        fields: Option<Fields>,
    },
    Instance(Fields),
    /// An object that carries one array. See [`classes::PAYLOAD`].
    Payload,
}

/// The protocol that says which attributes of an object are its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fields {
    Dataclass,
    Attrs,
}

/// A list, a plain or named tuple, a mapping, an instance of a dataclass or of a class of attrs, or a payload.
/// Subclasses of list are not containers: nothing is known about how to make one. Nor is what has a protocol of arrays.
pub struct Container<'a, 'py> {
    value: &'a Bound<'py, PyAny>,
    kind: Kind,
}

/// The place of an item in its container.
enum Place<'py> {
    Index,
    Key(Bound<'py, PyAny>),
    Field(Bound<'py, PyString>),
}

impl<'a, 'py> Container<'a, 'py> {
    /// The container that an object is, if it is one.
    #[inline]
    pub fn of(value: &'a Bound<'py, PyAny>) -> Option<Container<'a, 'py>> {
        let kind = if value.is_exact_instance_of::<PyList>() {
            Kind::List
        } else if value.is_exact_instance_of::<PyDict>() {
            Kind::Dict
        } else if value.is_exact_instance_of::<PyTuple>() {
            Kind::Tuple
        } else if !may_be_one(value) {
            return None;
        } else {
            static KINDS: ClassCache<Option<Kind>> = ClassCache::new();
            KINDS.get(&value.get_type(), examine)?
        };
        Some(Container { value, kind })
    }

    /// The object.
    pub fn value(&self) -> &'a Bound<'py, PyAny> {
        self.value
    }

    /// Returns whether it is a tuple.
    pub fn is_tuple(&self) -> bool {
        self.kind == Kind::Tuple
    }

    /// Returns whether it is a list or a tuple.
    pub fn is_sequence(&self) -> bool {
        matches!(self.kind, Kind::List | Kind::Tuple)
    }

    /// Returns whether it is an object with fields, and not a mapping.
    pub fn is_instance(&self) -> bool {
        matches!(self.kind, Kind::Instance(_))
    }

    /// Its elements, values and fields, in order.
    pub fn items(&self) -> PyResult<Vec<Bound<'py, PyAny>>> {
        match self.kind {
            Kind::List => Ok(self.value.cast::<PyList>()?.iter().collect()),
            Kind::Tuple => Ok(self.value.cast::<PyTuple>()?.iter().collect()),
            Kind::Dict => Ok(self.value.cast::<PyDict>()?.values().iter().collect()),
            _ => Ok(self.places()?.into_iter().map(|(_, value)| value).collect()),
        }
    }

    /// The number of its items, if it is a list or a tuple of Python's own numbers, text and `None` alone.
    pub fn plain_len(&self) -> Option<usize> {
        match self.kind {
            Kind::List => {
                let list = self.value.cast_exact::<PyList>().ok()?;
                #[cfg(any(Py_GIL_DISABLED, Py_LIMITED_API))]
                let all_plain = list.iter().all(|item| is_plain(&item));
                // References would cost more than the rest.
                #[cfg(not(any(Py_GIL_DISABLED, Py_LIMITED_API)))]
                let all_plain = (0..list.len()).all(|index| {
                    // SAFETY: the index is below the length, and no code runs that could change the list.
                    let item =
                        unsafe { ffi::PyList_GET_ITEM(list.as_ptr(), index as ffi::Py_ssize_t) };
                    // SAFETY: the list has the item until other code runs.
                    is_plain(&*unsafe { Borrowed::from_ptr(list.py(), item) })
                });
                all_plain.then(|| list.len())
            }
            Kind::Tuple => {
                let tuple = self.value.cast_exact::<PyTuple>().ok()?;
                tuple.iter_borrowed().all(|item| is_plain(&item)).then(|| tuple.len())
            }
            _ => None,
        }
    }

    /// Where each of its items is, as Python writes it: `[0]`, `['a']` or `.a`.
    pub fn names(&self) -> PyResult<Vec<String>> {
        let places = self.places()?.into_iter().enumerate();
        let name = |(index, (place, _)): (usize, (Place<'py>, _))| {
            Ok(match place {
                Place::Index => format!("[{index}]"),
                Place::Key(key) => format!("[{}]", key.repr()?),
                Place::Field(name) => format!(".{name}"),
            })
        };
        places.map(name).collect()
    }

    /// One like it with other items. An object with fields is copied, not initialised again.
    pub fn with(&self, items: Vec<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        let py = self.value.py();
        match self.kind {
            Kind::List | Kind::Tuple => rebuilt(self.value, items),
            Kind::Dict => {
                let (dict, keys) = (PyDict::new(py), self.value.cast::<PyDict>()?.keys());
                if keys.len() != items.len() {
                    let text = "a dict changed its size while its arrays were converted";
                    return Err(PyRuntimeError::new_err(text));
                }
                for (key, item) in keys.iter().zip(items) {
                    dict.set_item(key, item)?;
                }
                Ok(dict.into_any())
            }
            Kind::Instance(_) => self.copied(&items),
            Kind::Payload => self.value.call_method(intern!(py, "with_data"), (&items[0],), None),
            // One that never changes is made of a dict.
            Kind::Mapping { .. } => self.copied(&items).or_else(|error| {
                let dict = PyDict::new(py);
                for ((place, _), item) in self.places()?.into_iter().zip(&items) {
                    match place {
                        Place::Key(key) => dict.set_item(key, item)?,
                        _ => return Err(error),
                    }
                }
                self.value.get_type().call1((dict,)).map_err(|_| error)
            }),
        }
    }

    /// A copy of the object that gets the items that are others.
    fn copied(&self, items: &[Bound<'py, PyAny>]) -> PyResult<Bound<'py, PyAny>> {
        let py = self.value.py();
        let copy = py.import(intern!(py, "copy"))?.getattr(intern!(py, "copy"))?;
        let copy = copy.call1((self.value,))?;
        // The object may be frozen.
        let set = py.get_type::<PyAny>().getattr(intern!(py, "__setattr__"))?;
        for ((place, before), item) in self.places()?.into_iter().zip(items) {
            if item.is(&before) {
                continue;
            }
            match place {
                Place::Key(key) => {
                    copy.set_item(&key, item)?;
                    // A field of the same name, where the class does not set it too.
                    if let (Kind::Mapping { fields: Some(_) }, Ok(name)) = (self.kind, key.cast())
                        && copy.getattr_opt(name)?.is_some_and(|value| value.is(&before))
                    {
                        set.call1((&copy, name, item))?;
                    }
                }
                Place::Field(name) => drop(set.call1((&copy, name, item))?),
                Place::Index => {}
            }
        }
        Ok(copy)
    }

    /// The items with their places.
    fn places(&self) -> PyResult<Vec<(Place<'py>, Bound<'py, PyAny>)>> {
        match self.kind {
            Kind::List | Kind::Tuple => {
                self.value.try_iter()?.map(|item| Ok((Place::Index, item?))).collect()
            }
            Kind::Dict | Kind::Mapping { fields: None } => self.entries(),
            Kind::Mapping { fields: Some(fields) } => {
                let mut found = self.entries()?;
                let is_key = |name: &Bound<'py, PyString>| self.value.contains(name);
                for (name, value) in self.fields(fields)? {
                    if !is_key(&name)? {
                        found.push((Place::Field(name), value));
                    }
                }
                Ok(found)
            }
            Kind::Instance(fields) => {
                let fields = self.fields(fields)?.into_iter();
                Ok(fields.map(|(name, value)| (Place::Field(name), value)).collect())
            }
            Kind::Payload => {
                let data =
                    self.value.call_method0(intern!(self.value.py(), "array_payload_data"))?;
                let name = PyString::new(self.value.py(), "array_payload_data()");
                Ok(vec![(Place::Field(name), data)])
            }
        }
    }

    /// The keys and values of a mapping, as its own methods give them.
    fn entries(&self) -> PyResult<Vec<(Place<'py>, Bound<'py, PyAny>)>> {
        let pairs = self.value.call_method0(intern!(self.value.py(), "items"))?;
        let pairs = pairs.try_iter()?.map(|pair| {
            let (key, value): (Bound<'py, PyAny>, Bound<'py, PyAny>) = pair?.extract()?;
            Ok((Place::Key(key), value))
        });
        pairs.collect()
    }

    /// The fields of an object that have a value.
    fn fields(&self, fields: Fields) -> PyResult<Vec<(Bound<'py, PyString>, Bound<'py, PyAny>)>> {
        let py = self.value.py();
        let fields = match fields {
            Fields::Dataclass => {
                let module = py.import(intern!(py, "dataclasses"))?;
                module.call_method1(intern!(py, "fields"), (self.value,))?
            }
            Fields::Attrs => self.value.getattr(intern!(py, "__attrs_attrs__"))?,
        };
        let mut found = Vec::new();
        for field in fields.try_iter()? {
            let name = field?.getattr(intern!(py, "name"))?.cast_into::<PyString>()?;
            if let Some(value) = self.value.getattr_opt(&name)? {
                found.push((name, value));
            }
        }
        Ok(found)
    }
}

/// Returns whether an object is one of Python's own numbers, text or `None`.
#[inline]
fn is_plain(value: &Bound<'_, PyAny>) -> bool {
    value.is_exact_instance_of::<PyInt>()
        || value.is_exact_instance_of::<PyFloat>()
        || value.is_exact_instance_of::<PyString>()
        || value.is_exact_instance_of::<PyBool>()
        || value.is_none()
}

/// Rules out numbers, text, functions and arrays without looking anything up: of the classes that are written in C and
/// not made at run time, only some dicts, tuples and the read-only mapping are containers.
#[inline]
fn may_be_one(value: &Bound<'_, PyAny>) -> bool {
    const MAY_BE: std::ffi::c_ulong =
        ffi::Py_TPFLAGS_HEAPTYPE | ffi::Py_TPFLAGS_DICT_SUBCLASS | ffi::Py_TPFLAGS_TUPLE_SUBCLASS;
    classes::flags_of_class(value) & MAY_BE != 0 || value.is_exact_instance_of::<PyMappingProxy>()
}

/// The kind of container that the objects of a class are.
fn examine(class: &Bound<'_, PyType>) -> Option<Kind> {
    /// Mappings that are in memory. Others may read a file for each value.
    const MAPPINGS: [&str; 3] =
        ["collections.UserDict", "builtins.mappingproxy", "flax.core.frozen_dict.FrozenDict"];
    let py = class.py();
    let names = classes::names_of(class);
    let is_one_of = |list: &[&str]| names.iter().any(|name| list.contains(&name.as_str()));
    if is_one_of(&[classes::PAYLOAD]) {
        return Some(Kind::Payload);
    }
    if classes::exports(class) || classes::has_numpy_protocol(class) {
        return None;
    }
    let has = |name| class.hasattr(name).unwrap_or(false);
    let fields = if has(intern!(py, "__dataclass_fields__")) {
        Some(Fields::Dataclass)
    } else if has(intern!(py, "__attrs_attrs__")) {
        Some(Fields::Attrs)
    } else {
        None
    };
    if class.is_subclass_of::<PyTuple>().unwrap_or(false) {
        maker(class).is_some().then_some(Kind::Tuple)
    } else if class.is_subclass_of::<PyDict>().unwrap_or(false) || is_one_of(&MAPPINGS) {
        Some(Kind::Mapping { fields })
    } else {
        fields.map(Kind::Instance)
    }
}
