//! What compiled operations call.
//!
//! `frameworks!()` turns each op of a table into a function that is made of these. They are on the
//! path of every conversion: names are interned once, arguments are passed by vectorcall, and the
//! functions that an op calls are looked up once for each module object.

use std::sync::OnceLock;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyFloat, PyInt, PyNone, PyString, PyTuple};

/// A value for each module object that asked for it. Entries are never dropped: a process has one
/// module of a name, or a few where a test puts a fake in its place.
struct PerModule<T> {
    first: OnceLock<Box<Entry<T>>>,
}

struct Entry<T> {
    /// Held, so that no other object can take its address.
    module: Py<PyAny>,
    value: T,
    next: OnceLock<Box<Entry<T>>>,
}

impl<T> PerModule<T> {
    const fn new() -> Self {
        PerModule { first: OnceLock::new() }
    }

    #[inline]
    fn get<E>(
        &self,
        module: &Bound<'_, PyAny>,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<&T, E> {
        match self.first.get() {
            Some(entry) if entry.module.is(module) => Ok(&entry.value),
            _ => self.search(module, make),
        }
    }

    #[cold]
    fn search<E>(
        &self,
        module: &Bound<'_, PyAny>,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<&T, E> {
        let mut slot = &self.first;
        while let Some(entry) = slot.get() {
            if entry.module.is(module) {
                return Ok(&entry.value);
            }
            slot = &entry.next;
        }
        let (module, next) = (module.clone().unbind(), OnceLock::new());
        // No lock is held here, so `make` may run Python. Another thread may have been quicker
        // with the same module; then there are two entries, and the first is found.
        let mut entry = Box::new(Entry { module, value: make()?, next });
        while let Err(refused) = slot.set(entry) {
            entry = refused;
            slot = match slot.get() {
                Some(taken) => &taken.next,
                None => slot,
            };
        }
        // `set` succeeded, so that the slot is filled.
        Ok(slot.get().map(|entry| &entry.value).unwrap_or_else(|| unreachable!()))
    }
}

/// Attributes that lead from a module to an object that stays the same, such as a function.
pub struct Path {
    names: &'static [&'static str],
    found: PerModule<Py<PyAny>>,
}

impl Path {
    /// The path of these names.
    pub const fn new(names: &'static [&'static str]) -> Self {
        Path { names, found: PerModule::new() }
    }

    /// The object at the end of the path. A failure is not remembered.
    #[inline]
    pub fn get<'a, 'py>(&'a self, module: &Bound<'py, PyAny>) -> PyResult<&'a Bound<'py, PyAny>> {
        let found = self.found.get(module, || walk(module, self.names).map(Bound::unbind))?;
        Ok(found.bind(module.py()))
    }
}

fn walk<'py>(module: &Bound<'py, PyAny>, names: &[&str]) -> PyResult<Bound<'py, PyAny>> {
    names.iter().try_fold(module.clone(), |object, name| {
        object.getattr(PyString::intern(module.py(), name))
    })
}

/// Which of several alternatives an installed version has.
pub struct Choice {
    /// The attributes that each alternative but the last begins with.
    paths: &'static [&'static [&'static str]],
    chosen: PerModule<usize>,
}

impl Choice {
    /// The choice between these and one more.
    pub const fn new(paths: &'static [&'static [&'static str]]) -> Self {
        Choice { paths, chosen: PerModule::new() }
    }

    /// The index of the first whose attributes exist, or of the last.
    #[inline]
    pub fn get(&self, module: &Bound<'_, PyAny>) -> usize {
        let exists = |path: &&[&str]| walk(module, path).is_ok();
        let choose = || {
            let found = self.paths.iter().position(|path| exists(path));
            Ok(found.unwrap_or(self.paths.len()))
        };
        let Ok(index) = self.chosen.get::<std::convert::Infallible>(module, choose);
        *index
    }
}

/// The names of keyword arguments.
pub struct Keywords {
    names: &'static [&'static str],
    tuple: PyOnceLock<Py<PyTuple>>,
}

impl Keywords {
    /// Of these names.
    pub const fn new(names: &'static [&'static str]) -> Self {
        Keywords { names, tuple: PyOnceLock::new() }
    }

    /// As Python's calling convention wants them.
    #[inline]
    pub fn get<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyTuple>> {
        let make = || {
            let names = self.names.iter().map(|name| PyString::intern(py, name));
            PyTuple::new(py, names).map(Bound::unbind)
        };
        Ok(self.tuple.get_or_try_init(py, make)?.bind(py))
    }
}

/// A number or truth value in an op.
pub struct Literal {
    value: Value,
    object: PyOnceLock<Py<PyAny>>,
}

/// The value of a [`Literal`].
#[derive(Clone, Copy)]
pub enum Value {
    /// A whole number.
    Int(i64),
    /// A floating point number.
    Float(f64),
    /// `True` or `False`.
    Bool(bool),
}

impl Literal {
    /// Of this value.
    pub const fn new(value: Value) -> Self {
        Literal { value, object: PyOnceLock::new() }
    }

    /// As an object.
    #[inline]
    pub fn get<'py>(&self, py: Python<'py>) -> &Bound<'py, PyAny> {
        let make = || match self.value {
            Value::Int(value) => PyInt::new(py, value).into_any().unbind(),
            Value::Float(value) => PyFloat::new(py, value).into_any().unbind(),
            Value::Bool(value) => PyBool::new(py, value).to_owned().into_any().unbind(),
        };
        self.object.get_or_init(py, make).bind(py)
    }
}

/// `None`.
#[inline]
pub fn none(py: Python<'_>) -> Bound<'_, PyAny> {
    PyNone::get(py).to_owned().into_any()
}

/// `object.name`.
#[inline]
pub fn attribute<'py>(
    object: &Bound<'py, PyAny>,
    name: &Bound<'py, PyString>,
) -> PyResult<Bound<'py, PyAny>> {
    object.getattr(name)
}

/// `getattr(module, name)`, which is what a dtype is by default.
pub fn attribute_of_name<'py>(
    _: Python<'py>,
    [module, name]: [&Bound<'py, PyAny>; 2],
) -> PyResult<Bound<'py, PyAny>> {
    module.getattr(name.cast::<PyString>()?)
}

/// `object[key]`.
#[inline]
pub fn item<'py>(
    object: &Bound<'py, PyAny>,
    key: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    object.get_item(key)
}

/// `left == right` and its like: whatever object the comparison gives.
#[inline]
pub fn compare<'py>(
    left: &Bound<'py, PyAny>,
    right: &Bound<'py, PyAny>,
    comparison: CompareOp,
) -> PyResult<Bound<'py, PyAny>> {
    left.rich_compare(right, comparison)
}

/// The arguments of a vectorcall. Python may use the slot before the first argument.
#[repr(C)]
struct Frame<const N: usize> {
    spare: *mut ffi::PyObject,
    receiver: *mut ffi::PyObject,
    arguments: [*mut ffi::PyObject; N],
}

impl<const N: usize> Frame<N> {
    #[inline]
    fn new(receiver: *mut ffi::PyObject, arguments: [&Bound<'_, PyAny>; N]) -> Self {
        let spare = std::ptr::null_mut();
        Frame { spare, receiver, arguments: arguments.map(Bound::as_ptr) }
    }

    /// How many of them are positional, counting `extra`, with the mark that the slot before them
    /// may be written.
    #[inline]
    fn positional(extra: usize, names: Option<&Bound<'_, PyTuple>>) -> usize {
        let keywords = names.map_or(0, PyTupleMethods::len);
        debug_assert!(keywords <= N);
        (extra + N - keywords) | ffi::PY_VECTORCALL_ARGUMENTS_OFFSET
    }
}

/// `callable(..)`: the last arguments are those of the keywords.
#[inline]
pub fn call<'py, const N: usize>(
    callable: &Bound<'py, PyAny>,
    arguments: [&Bound<'py, PyAny>; N],
    names: Option<&Bound<'py, PyTuple>>,
) -> PyResult<Bound<'py, PyAny>> {
    let positional = Frame::<N>::positional(0, names);
    let names = names.map_or(std::ptr::null_mut(), Bound::as_ptr);
    let mut frame = Frame::new(std::ptr::null_mut(), arguments);
    let frame = &raw mut frame;
    // SAFETY: the thread is attached, as `callable` shows. The callable and the arguments are
    // borrowed for longer than the call. `arguments` has N pointers, of which the last belong to
    // the names, and the slot before the first, `receiver`, is ours and may be written.
    unsafe {
        let arguments = (&raw const (*frame).receiver).add(1);
        let result = ffi::PyObject_Vectorcall(callable.as_ptr(), arguments, positional, names);
        Bound::from_owned_ptr_or_err(callable.py(), result)
    }
}

/// `receiver.name(..)`: the last arguments are those of the keywords.
#[inline]
pub fn call_method<'py, const N: usize>(
    receiver: &Bound<'py, PyAny>,
    name: &Bound<'py, PyString>,
    arguments: [&Bound<'py, PyAny>; N],
    names: Option<&Bound<'py, PyTuple>>,
) -> PyResult<Bound<'py, PyAny>> {
    let positional = Frame::<N>::positional(1, names);
    let names = names.map_or(std::ptr::null_mut(), Bound::as_ptr);
    let mut frame = Frame::new(receiver.as_ptr(), arguments);
    let frame = &raw mut frame;
    // SAFETY: the thread is attached, as `receiver` shows. The receiver, the name and the arguments
    // are borrowed for longer than the call. From `receiver` on there are 1 + N pointers, of which
    // the last belong to the names, and the slot before, `spare`, is ours and may be written.
    unsafe {
        let arguments = (&raw const (*frame).spare).add(1);
        let result = ffi::PyObject_VectorcallMethod(name.as_ptr(), arguments, positional, names);
        Bound::from_owned_ptr_or_err(receiver.py(), result)
    }
}
