//! The functions that compiled operations call.
//!
//! `frameworks!()` compiles each op of a table to calls of these functions. They are on the path of
//! every conversion: names are interned once, arguments are passed by vectorcall, and the functions
//! that an op calls are looked up once.

use std::sync::OnceLock;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyFloat, PyInt, PyList, PyNone, PyString, PyTuple};

use crate::framework::spec::Op;

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
        self.object.get_or_init(py, make).bind(py)
    }
}

/// NumPy's module.
pub fn numpy(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static NUMPY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let import = || py.import("numpy").map(|module| module.into_any().unbind());
    Ok(NUMPY.get_or_try_init(py, import)?.bind(py))
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
    call: |module, [name]| module.getattr(name.cast::<PyString>()?),
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

#[cfg(test)]
mod tests {
    use pyo3::types::PyModule;

    use super::Step::{Attribute, Item};
    use super::*;

    const GLOBALS: Step = Attribute("__globals__");
    const FAKE: &std::ffi::CStr = c"
class config:
    wide = False

def make(size):
    return size
";

    /// A new module for each call.
    fn fake(py: Python<'_>) -> Bound<'_, PyAny> {
        let module = PyModule::new(py, "fake").unwrap();
        py.run(FAKE, Some(&module.dict()), None).unwrap();
        module.into_any()
    }

    fn same(found: &Bound<'_, PyAny>, expected: &str) -> bool {
        found.repr().unwrap() == expected
    }

    #[test]
    fn an_exception_of_the_callee_is_returned() {
        Python::attach(|py| {
            let make = fake(py).getattr("make").unwrap();
            let error = call(&make, [], None).unwrap_err();
            assert!(error.is_instance_of::<pyo3::exceptions::PyTypeError>(py));
        });
    }

    #[test]
    fn a_path_is_looked_up_once_and_is_that_of_its_module() {
        static PATH: Path = Path::new(&[Attribute("make")]);
        Python::attach(|py| {
            let (first, second) = (fake(py), fake(py));
            let [found, other] = [&first, &second].map(|module| module.getattr("make").unwrap());
            for _ in 0..2 {
                assert!(PATH.get(&first).unwrap().is(&found));
                assert!(PATH.get(&second).unwrap().is(&other));
            }
            first.delattr("make").unwrap();
            assert!(PATH.get(&first).unwrap().is(&found));
        });
    }

    #[test]
    fn a_path_leads_through_the_items_of_a_dict() {
        static PATH: Path =
            Path::new(&[Attribute("make"), GLOBALS, Item("config"), Attribute("wide")]);
        static GONE: Path = Path::new(&[Attribute("make"), GLOBALS, Item("gone")]);
        Python::attach(|py| {
            let module = fake(py);
            assert!(same(&PATH.get(&module).unwrap(), "False"));
            assert!(GONE.get(&module).is_err());
        });
    }

    #[test]
    fn a_missing_path_is_looked_up_again() {
        static PATH: Path = Path::new(&[Attribute("config"), Attribute("late")]);
        Python::attach(|py| {
            let module = fake(py);
            assert!(PATH.get(&module).is_err());
            module.getattr("config").unwrap().setattr("late", 3).unwrap();
            assert!(same(&PATH.get(&module).unwrap(), "3"));
        });
    }

    #[test]
    fn the_first_alternative_that_exists_is_chosen_or_else_the_last() {
        static SECOND: Choice = Choice::new(&[
            &[Attribute("gone")],
            &[Attribute("config"), Attribute("wide")],
            &[Attribute("make")],
        ]);
        static LAST: Choice =
            Choice::new(&[&[Attribute("gone")], &[Attribute("make"), GLOBALS, Item("gone")]]);
        Python::attach(|py| {
            let module = fake(py);
            for _ in 0..2 {
                assert_eq!(SECOND.get(&module), 1);
                assert_eq!(LAST.get(&module), 2);
            }
        });
    }

    #[test]
    fn lists_and_tuples_are_new_each_time() {
        Python::attach(|py| {
            let [a, b] = [1, -2].map(|value| PyInt::new(py, value).into_any());
            let made = list(py, [&a, &b]).unwrap();
            assert!(same(&made, "[1, -2]") && !list(py, [&a, &b]).unwrap().is(&made));
            assert!(same(&tuple(py, [&b]).unwrap(), "(-2,)"));
        });
    }

    #[test]
    fn a_compiled_op_reads_a_value_each_time() {
        let jax = crate::framework::generated::statics::JAX.missing[0].when;
        Python::attach(|py| {
            let module = fake(py);
            let config = module.getattr("config").unwrap();
            for wide in [true, false, true] {
                config.setattr("jax_enable_x64", wide).unwrap();
                let absent = (jax.call)(&module, []).unwrap();
                assert_eq!(absent.is_truthy().unwrap(), !wide);
            }
        });
    }

    #[test]
    fn an_attribute_behind_an_item_is_read_each_time() {
        let import = crate::framework::generated::statics::TENSORFLOW.import.as_ref().unwrap();
        let fast = &import.fast[0];
        const TENSORFLOW: &std::ffi::CStr = c"
class context:
    class _context:
        _handle = 1

class pywrap_tfe:
    def TFE_FromDlpackCapsule(capsule, handle):
        return (capsule, handle)

def from_dlpack(capsule):
    pass

class dlpack:
    from_dlpack = from_dlpack

class experimental:
    dlpack = dlpack
";
        Python::attach(|py| {
            let module = PyModule::new(py, "tensorflow").unwrap();
            py.run(TENSORFLOW, Some(&module.dict()), None).unwrap();
            let capsule = PyString::new(py, "capsule").into_any();
            let dtype = none(py);
            let take = || (fast.call)(&module, [&capsule, &dtype]).unwrap();
            assert!(same(&take(), "('capsule', 1)"));
            py.run(c"context._context = type('', (), {'_handle': 2})", Some(&module.dict()), None)
                .unwrap();
            assert!(same(&take(), "('capsule', 2)"));
        });
    }
}
