//! The functions that compiled operations call.
//!
//! `frameworks!()` compiles each op of a table to calls of these functions. They are on the path of
//! every conversion: names are interned once, arguments are passed by vectorcall, and the functions
//! that an op calls are looked up once.

use std::ops::Deref;
use std::sync::OnceLock;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyFloat, PyInt, PyList, PyNone, PyString, PyTuple};
use smallvec::SmallVec;

use crate::framework::spec::Op;
use crate::interpreter::once::Once;

/// The values of the names in an op's scope.
pub type Scope<'a, 'py, const N: usize> = [&'a Bound<'py, PyAny>; N];

/// The result of an op.
pub type Outcome<'py> = PyResult<Bound<'py, PyAny>>;

/// A step on the way from a module to an object.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// To an attribute.
    Attribute(&'static str),
    /// To an item of a dict.
    Item(&'static str),
}

/// The way from a module to an object that does not change, such as a function.
pub struct Path {
    steps: &'static [Step],
    /// The object that was found, and its module. A process has one module of a name, unless a test replaces it.
    found: OnceLock<(Py<PyAny>, Py<PyAny>)>,
}

impl Path {
    /// The path of these steps.
    pub const fn new(steps: &'static [Step]) -> Self {
        Path { steps, found: OnceLock::new() }
    }

    /// The object at the end of the path. A failure is not cached.
    #[inline]
    pub fn get<'py>(&self, module: &Bound<'py, PyAny>) -> Outcome<'py> {
        match self.found.get() {
            Some((known, found)) if known.is(module) => Ok(found.bind(module.py()).clone()),
            _ => self.look_up(module),
        }
    }

    #[cold]
    fn look_up<'py>(&self, module: &Bound<'py, PyAny>) -> Outcome<'py> {
        let found = walk(module, self.steps)?;
        let _ = self.found.set((module.clone().unbind(), found.clone().unbind()));
        Ok(found)
    }
}

fn walk<'py>(module: &Bound<'py, PyAny>, steps: &[Step]) -> PyResult<Bound<'py, PyAny>> {
    steps.iter().try_fold(module.clone(), |object, step| match step {
        Step::Attribute(name) => object.getattr(PyString::intern(module.py(), name)),
        Step::Item(key) => object.get_item(PyString::intern(module.py(), key)),
    })
}

/// The alternative, of several, that the installed version has.
pub struct Choice {
    /// The path with which each alternative but the last begins.
    paths: &'static [&'static [Step]],
    /// The index that was chosen, and the module for which it was.
    chosen: OnceLock<(Py<PyAny>, usize)>,
}

impl Choice {
    /// The choice between these alternatives and a last one.
    pub const fn new(paths: &'static [&'static [Step]]) -> Self {
        Choice { paths, chosen: OnceLock::new() }
    }

    /// The index of the first alternative whose beginning exists, or of the last one.
    #[inline]
    pub fn get(&self, module: &Bound<'_, PyAny>) -> usize {
        match self.chosen.get() {
            Some((known, index)) if known.is(module) => *index,
            _ => self.choose(module),
        }
    }

    #[cold]
    fn choose(&self, module: &Bound<'_, PyAny>) -> usize {
        let found = self.paths.iter().position(|path| walk(module, path).is_ok());
        let index = found.unwrap_or(self.paths.len());
        let _ = self.chosen.set((module.clone().unbind(), index));
        index
    }
}

/// The names of keyword arguments.
pub struct Keywords {
    names: &'static [&'static str],
    tuple: PyOnceLock<Py<PyTuple>>,
}

impl Keywords {
    /// The keywords of these names.
    pub const fn new(names: &'static [&'static str]) -> Self {
        Keywords { names, tuple: PyOnceLock::new() }
    }

    /// The tuple for a vectorcall.
    #[inline]
    pub fn get<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyTuple>> {
        let make = || {
            let names = self.names.iter().map(|name| PyString::intern(py, name));
            PyTuple::new(py, names).map(Bound::unbind)
        };
        Ok(self.tuple.try_once(py, make)?.bind(py))
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
    /// The literal of this value.
    pub const fn new(value: Value) -> Self {
        Literal { value, object: PyOnceLock::new() }
    }

    /// The value as an object.
    #[inline]
    pub fn get<'py>(&self, py: Python<'py>) -> &Bound<'py, PyAny> {
        let make = || match self.value {
            Value::Int(value) => PyInt::new(py, value).into_any().unbind(),
            Value::Float(value) => PyFloat::new(py, value).into_any().unbind(),
            Value::Bool(value) => PyBool::new(py, value).to_owned().into_any().unbind(),
        };
        self.object.once(py, make).bind(py)
    }
}

/// NumPy's module.
pub fn numpy(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static NUMPY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let import = || py.import("numpy").map(|module| module.into_any().unbind());
    Ok(NUMPY.try_once(py, import)?.bind(py))
}

/// `None`.
#[inline]
pub fn none(py: Python<'_>) -> Bound<'_, PyAny> {
    PyNone::get(py).to_owned().into_any()
}

/// `[..]`.
pub fn list<'py, const N: usize>(py: Python<'py>, values: [&Bound<'py, PyAny>; N]) -> Outcome<'py> {
    Ok(PyList::new(py, values)?.into_any())
}

/// `(.., )`.
pub fn tuple<'py, const N: usize>(
    py: Python<'py>,
    values: [&Bound<'py, PyAny>; N],
) -> Outcome<'py> {
    Ok(PyTuple::new(py, values)?.into_any())
}

/// `object.name`.
#[inline]
pub fn attribute<'py>(object: &Bound<'py, PyAny>, name: &Bound<'py, PyString>) -> Outcome<'py> {
    object.getattr(name)
}

/// The default op for a dtype.
pub const ATTRIBUTE_OF_NAME: Op<1> = Op {
    source: "getattr(module, name)",
    uses: [true],
    call: &|module, [name]| module.getattr(name.cast::<PyString>()?),
};

/// `object[key]`.
#[inline]
pub fn item<'py>(object: &Bound<'py, PyAny>, key: &Bound<'py, PyAny>) -> Outcome<'py> {
    object.get_item(key)
}

/// `left == right` or another comparison. The result need not be a bool.
#[inline]
pub fn compare<'py>(
    left: &Bound<'py, PyAny>,
    right: &Bound<'py, PyAny>,
    comparison: CompareOp,
) -> Outcome<'py> {
    left.rich_compare(right, comparison)
}

/// The arguments of a vectorcall. The callee may write to the slot before the first argument.
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

    /// The number of positional arguments, plus `extra`, with the flag that the slot before them may
    /// be written to.
    #[inline]
    fn positional(extra: usize, names: Option<&Bound<'_, PyTuple>>) -> usize {
        let keywords = names.map_or(0, PyTupleMethods::len);
        debug_assert!(keywords <= N);
        (extra + N - keywords) | ffi::PY_VECTORCALL_ARGUMENTS_OFFSET
    }
}

/// `callable(..)`. The last arguments are those with keywords.
#[inline]
pub fn call<'py, const N: usize>(
    callable: &Bound<'py, PyAny>,
    arguments: [&Bound<'py, PyAny>; N],
    names: Option<&Bound<'py, PyTuple>>,
) -> Outcome<'py> {
    let positional = Frame::<N>::positional(0, names);
    let names = names.map_or(std::ptr::null_mut(), Bound::as_ptr);
    let mut frame = Frame::new(std::ptr::null_mut(), arguments);
    let frame = &raw mut frame;
    // SAFETY: the thread is attached, since there is a `Bound`. The callable and the arguments are
    // borrowed for longer than the call. `arguments` points to N pointers, the last of which belong
    // to `names`, and the slot before the first, `receiver`, may be written to.
    unsafe {
        let arguments = (&raw const (*frame).receiver).add(1);
        let result = ffi::PyObject_Vectorcall(callable.as_ptr(), arguments, positional, names);
        Bound::from_owned_ptr_or_err(callable.py(), result)
    }
}

/// `receiver.name(..)`. The last arguments are those with keywords.
#[inline]
pub fn call_method<'py, const N: usize>(
    receiver: &Bound<'py, PyAny>,
    name: &Bound<'py, PyString>,
    arguments: [&Bound<'py, PyAny>; N],
    names: Option<&Bound<'py, PyTuple>>,
) -> Outcome<'py> {
    let positional = Frame::<N>::positional(1, names);
    let names = names.map_or(std::ptr::null_mut(), Bound::as_ptr);
    let mut frame = Frame::new(receiver.as_ptr(), arguments);
    let frame = &raw mut frame;
    // SAFETY: the thread is attached, since there is a `Bound`. The receiver, the name and the
    // arguments are borrowed for longer than the call. `arguments` points to 1 + N pointers from
    // `receiver` on, the last of which belong to `names`, and the slot before, `spare`, may be
    // written to.
    unsafe {
        let arguments = (&raw const (*frame).spare).add(1);
        let result = ffi::PyObject_VectorcallMethod(name.as_ptr(), arguments, positional, names);
        Bound::from_owned_ptr_or_err(receiver.py(), result)
    }
}

/// [`call`] with any number of arguments.
pub fn call_all<'py>(
    callable: &Bound<'py, PyAny>,
    arguments: &[impl Deref<Target = Bound<'py, PyAny>>],
    names: Option<&Bound<'py, PyTuple>>,
) -> Outcome<'py> {
    let (mut slots, positional, names) = vectorcall(arguments, names);
    // SAFETY: the thread is attached, since there is a `Bound`. The callable and the arguments are
    // borrowed for longer than the call. The slots from the second on are the arguments, the last of
    // which belong to `names`, and the first may be written to.
    unsafe {
        let arguments = slots.as_mut_ptr().add(1);
        let result = ffi::PyObject_Vectorcall(callable.as_ptr(), arguments, positional, names);
        Bound::from_owned_ptr_or_err(callable.py(), result)
    }
}

/// [`call_method`] with any number of arguments, the first of which is the receiver.
pub fn call_method_all<'py>(
    name: &Bound<'py, PyString>,
    arguments: &[impl Deref<Target = Bound<'py, PyAny>>],
    names: Option<&Bound<'py, PyTuple>>,
) -> Outcome<'py> {
    let (mut slots, positional, names) = vectorcall(arguments, names);
    debug_assert!(!arguments.is_empty());
    // SAFETY: as in `call_all`; the first of the arguments is the receiver.
    unsafe {
        let arguments = slots.as_mut_ptr().add(1);
        let result = ffi::PyObject_VectorcallMethod(name.as_ptr(), arguments, positional, names);
        Bound::from_owned_ptr_or_err(name.py(), result)
    }
}

/// A spare slot and the arguments, the number of positional ones with its flag, and the names.
#[inline]
fn vectorcall<'py>(
    arguments: &[impl Deref<Target = Bound<'py, PyAny>>],
    names: Option<&Bound<'py, PyTuple>>,
) -> (SmallVec<[*mut ffi::PyObject; 9]>, usize, *mut ffi::PyObject) {
    let spare = std::iter::once(std::ptr::null_mut());
    let slots = spare.chain(arguments.iter().map(|argument| argument.as_ptr())).collect();
    let positional = arguments.len() - names.map_or(0, PyTupleMethods::len);
    let names = names.map_or(std::ptr::null_mut(), Bound::as_ptr);
    (slots, positional | ffi::PY_VECTORCALL_ARGUMENTS_OFFSET, names)
}

#[cfg(test)]
mod tests;
