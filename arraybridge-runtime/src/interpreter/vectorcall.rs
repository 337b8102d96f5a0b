//! Python's calling convention without tuples, for classes of this crate whose objects are called.
//!
//! PyO3 has no slot for it, so the class is set up when its first object is made.

use std::any::Any;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::ffi;
use pyo3::panic::PanicException;
use pyo3::prelude::*;
use pyo3::pyclass::PyClass;
use pyo3::pyclass::boolean_struct::True;
use pyo3::types::{PyDict, PyTuple};

/// A class whose objects are called this way. It is not subclassed.
///
/// # Safety
///
/// [`Vectorcall::OFFSET`] is that of a [`Slot`] of the class. ([`vectorcall_class`] sees to that.)
///
/// [`vectorcall_class`]: crate::interpreter::vectorcall::vectorcall_class
pub unsafe trait Vectorcall: PyClass<Frozen = True> + Sync {
    /// Where in the object the slot is.
    const OFFSET: usize;

    /// Calls an object.
    ///
    /// # Errors
    ///
    /// What the call raises.
    fn call<'py>(slf: &Bound<'py, Self>, given: &Given<'_, 'py>) -> PyResult<Bound<'py, PyAny>>;
}

/// Has the objects of a class called by a function, through a field of type [`Slot`].
///
/// ```text
/// vectorcall_class!(Declared, vectorcall, fast::run);
/// ```
macro_rules! vectorcall_class {
    ($class:ty, $field:ident, $call:expr) => {
        // SAFETY: the offset is that of a field, whose type is checked.
        unsafe impl $crate::interpreter::vectorcall::Vectorcall for $class {
            const OFFSET: usize = {
                let _: fn(&$class) -> &$crate::interpreter::vectorcall::Slot<$class> =
                    |object| &object.$field;
                ::std::mem::offset_of!($class, $field)
            };

            fn call<'py>(
                slf: &::pyo3::Bound<'py, Self>,
                given: &$crate::interpreter::vectorcall::Given<'_, 'py>,
            ) -> ::pyo3::PyResult<::pyo3::Bound<'py, ::pyo3::PyAny>> {
                $call(slf, given)
            }
        }
    };
}
pub(crate) use vectorcall_class;

/// The function that Python calls for an object of a class.
#[repr(transparent)]
pub struct Slot<C> {
    _function: ffi::vectorcallfunc,
    class: PhantomData<fn(C)>,
}

impl<C: Vectorcall> Slot<C> {
    /// [`Vectorcall::call`].
    pub fn new() -> Slot<C> {
        // SAFETY: the function is one of Python's kind, and for objects of this class.
        unsafe { Slot::of(vectorcall::<C>) }
    }

    /// Another function.
    ///
    /// # Safety
    ///
    /// It does for every object of the class what Python expects of a `vectorcallfunc`.
    pub unsafe fn of(function: ffi::vectorcallfunc) -> Slot<C> {
        Slot { _function: function, class: PhantomData }
    }
}

/// Sets the class up; called with its first object, before anybody calls that.
#[cfg(not(Py_LIMITED_API))]
pub fn install<C: Vectorcall>(first: &Bound<'_, C>) {
    let contents = std::ptr::from_ref(first.get()) as usize - first.as_ptr() as usize;
    // SAFETY: the class is a heap type that lives as long as its object here; the interpreter is
    // attached. Each object has a slot at the same offset, since all objects of the class are laid out
    // alike, and it never changes.
    unsafe {
        let class = ffi::Py_TYPE(first.as_ptr());
        (*class).tp_vectorcall_offset = (contents + C::OFFSET) as ffi::Py_ssize_t;
        (*class).tp_flags |= ffi::Py_TPFLAGS_HAVE_VECTORCALL;
        ffi::PyType_Modified(class);
    }
}

/// The stable interface does not let a class be set up afterwards; `__call__` serves there.
#[cfg(Py_LIMITED_API)]
pub fn install<C: Vectorcall>(_first: &Bound<'_, C>) {}

/// The function at the offset that [`install`] tells Python.
///
/// # Safety
///
/// As Python's `vectorcallfunc`, with an object of the class.
unsafe extern "C" fn vectorcall<C: Vectorcall>(
    callable: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    nargsf: usize,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: Python calls with an object of the class and with arguments that it keeps for the call.
    unsafe { serve(callable, args, nargsf, names, C::call) }
}

/// Calls `body` with the object and the arguments, and gives Python what it gives.
///
/// # Safety
///
/// As Python's `vectorcallfunc`, with an object of the class.
pub unsafe fn serve<C: Vectorcall>(
    callable: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    nargsf: usize,
    names: *mut ffi::PyObject,
    body: impl for<'py> FnOnce(&Bound<'py, C>, &Given<'_, 'py>) -> PyResult<Bound<'py, PyAny>>,
) -> *mut ffi::PyObject {
    let attached = |py: Python<'_>| {
        let call = || {
            // SAFETY: Python's promise for the arguments of such a call, and its class.
            unsafe {
                let object = Borrowed::from_ptr(py, callable).cast_unchecked();
                let names = Borrowed::from_ptr_or_opt(py, names)
                    .map(|names| names.cast_unchecked::<PyTuple>());
                body(&object, &Given { args, nargsf, names })
            }
        };
        let done =
            catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| Err(raised(&*panic)));
        match done {
            Ok(result) => result.into_ptr(),
            Err(error) => {
                error.restore(py);
                std::ptr::null_mut()
            }
        }
    };
    // SAFETY: the interpreter calls, so it is there; PyO3 only has to count the attachment.
    unsafe { Python::attach_unchecked(attached) }
}

/// A panic as PyO3's own calling conventions raise it.
#[cold]
fn raised(panic: &(dyn Any + Send)) -> PyErr {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    PanicException::new_err(text.unwrap_or_else(|| "panic from Rust code".to_owned()))
}

/// The arguments of a call, where the caller has put them and keeps them.
pub struct Given<'a, 'py> {
    args: *const *mut ffi::PyObject,
    nargsf: usize,
    names: Option<Borrowed<'a, 'py, PyTuple>>,
}

impl<'a, 'py> Given<'a, 'py> {
    /// The arguments of a list, whose last ones have these names.
    pub fn of(args: &'a [Borrowed<'a, 'py, PyAny>], names: &'a Bound<'py, PyTuple>) -> Self {
        let nargsf = args.len() - names.len();
        Given { args: args.as_ptr().cast(), nargsf, names: Some(names.as_borrowed()) }
    }

    /// How many are given by position.
    #[inline]
    pub fn positional(&self) -> usize {
        self.nargsf & !ffi::PY_VECTORCALL_ARGUMENTS_OFFSET
    }

    /// The names of those that follow.
    #[inline]
    pub fn names(&self) -> Option<Borrowed<'a, 'py, PyTuple>> {
        self.names
    }

    /// All arguments, those by name after those by position.
    #[inline]
    pub fn all(&self) -> &'a [Borrowed<'a, 'py, PyAny>] {
        let count = self.positional() + self.names.map_or(0, |names| names.len());
        if count == 0 {
            return &[];
        }
        // SAFETY: there are as many, none is null, and the caller keeps them; a borrowed reference
        // is a pointer and a token without a size.
        unsafe { std::slice::from_raw_parts(self.args.cast(), count) }
    }

    /// The arguments as a tuple and a dictionary.
    ///
    /// # Errors
    ///
    /// `MemoryError`.
    pub fn packed(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyTuple>, Option<Bound<'py, PyDict>>)> {
        let (args, named) = self.all().split_at(self.positional());
        let args = PyTuple::new(py, args)?;
        let Some(names) = self.names else { return Ok((args, None)) };
        let kwargs = PyDict::new(py);
        for (name, value) in names.iter_borrowed().zip(named) {
            kwargs.set_item(name, value)?;
        }
        Ok((args, Some(kwargs)))
    }

    /// Hands the arguments on to another callable, as they are.
    ///
    /// # Errors
    ///
    /// What it raises.
    #[inline]
    pub fn pass(&self, function: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: the arguments are those that Python gave, with the permission that came with
        // them.
        unsafe {
            let names = self.names.map_or(std::ptr::null_mut(), |names| names.as_ptr());
            let result = ffi::PyObject_Vectorcall(function.as_ptr(), self.args, self.nargsf, names);
            Bound::from_owned_ptr_or_err(function.py(), result)
        }
    }
}
