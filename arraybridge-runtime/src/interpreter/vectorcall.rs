//! Python's vectorcall protocol, which calls objects without building a tuple, for classes of this crate.
//!
//! PyO3 does not support it for classes, so a class is set up when its first object is made.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
#[cfg(all(Py_GIL_DISABLED, not(Py_LIMITED_API)))]
use std::sync::atomic::Ordering;

use pyo3::ffi;
use pyo3::impl_::trampoline::{MethodDef, fastcall_cfunction_with_keywords};
use pyo3::prelude::*;
use pyo3::pyclass::PyClass;
use pyo3::pyclass::boolean_struct::True;
use pyo3::types::{PyDict, PyTuple};

use super::{interrupt, panic, park};

/// A class whose objects support vectorcall. It cannot be subclassed. Implement it with
/// `vectorcall_class!`.
///
/// # Safety
///
/// There is a [`Slot`] of the class at [`Vectorcall::OFFSET`].
pub unsafe trait Vectorcall: PyClass<Frozen = True> + Sync {
    /// The offset of the slot in the Rust value, in bytes.
    const OFFSET: usize;

    /// Calls an object.
    fn call<'py>(slf: &Bound<'py, Self>, given: &Given<'_, 'py>) -> PyResult<Bound<'py, PyAny>>;
}

/// Implements [`Vectorcall`] for a class, with the field that is its [`Slot`] and the function to call.
///
/// ```text
/// vectorcall_class!(Declared, vectorcall, fast::run);
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! vectorcall_class {
    ($class:ty, $field:ident, $call:expr) => {
        // SAFETY: the offset is that of the field, and the closure compiles only if the field is a slot.
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
pub use vectorcall_class;

/// The field of an object through which Python calls it.
#[repr(transparent)]
pub struct Slot<C> {
    _function: ffi::vectorcallfunc,
    class: PhantomData<fn(C)>,
}

impl<C: Vectorcall> Default for Slot<C> {
    /// Calls [`Vectorcall::call`].
    fn default() -> Slot<C> {
        // SAFETY: the function implements the protocol for objects of this class.
        unsafe { Slot::with_function(vectorcall::<C>) }
    }
}

impl<C: Vectorcall> Slot<C> {
    /// Calls another function.
    ///
    /// # Safety
    ///
    /// The function implements the protocol for every object of the class.
    pub unsafe fn with_function(function: ffi::vectorcallfunc) -> Slot<C> {
        Slot { _function: function, class: PhantomData }
    }
}

/// Sets up the class of its first object, before that is called.
#[cfg(not(Py_LIMITED_API))]
pub fn install<C: Vectorcall>(first: &Bound<'_, C>) {
    panic::note_places();
    let contents = std::ptr::from_ref(first.get()) as usize - first.as_ptr() as usize;
    // SAFETY: the object keeps its class alive, which is a heap type, and the thread is attached. All objects
    // of the class have the same layout, so each has a slot at this offset, and a slot never changes.
    unsafe {
        let class = ffi::Py_TYPE(first.as_ptr());
        (*class).tp_vectorcall_offset = (contents + C::OFFSET) as ffi::Py_ssize_t;
        #[cfg(not(Py_GIL_DISABLED))]
        {
            (*class).tp_flags |= ffi::Py_TPFLAGS_HAVE_VECTORCALL;
        }
        #[cfg(Py_GIL_DISABLED)]
        (*class).tp_flags.fetch_or(ffi::Py_TPFLAGS_HAVE_VECTORCALL, Ordering::Relaxed);
        ffi::PyType_Modified(class);
    }
}

/// With the stable interface a class cannot be changed afterwards, and Python calls `__call__`.
#[cfg(Py_LIMITED_API)]
pub fn install<C: Vectorcall>(_first: &Bound<'_, C>) {}

/// The function in the slot. PyO3's own functions are called by Python in this way too: the thread is attached, of
/// which PyO3 takes note without asking the interpreter, as [`Python::attach_unchecked`] would. PyO3 has no other
/// door to it.
///
/// # Safety
///
/// Python calls it for an object of the class.
unsafe extern "C" fn vectorcall<C: Vectorcall>(
    callable: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    nargsf: usize,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    let nargsf = nargsf.cast_signed();
    // SAFETY: Python calls this for an object of the class, from an attached thread.
    unsafe { fastcall_cfunction_with_keywords::<Served<C>>(callable, args, nargsf, names) }
}

/// Calls by vectorcall of objects of a class.
struct Served<C>(PhantomData<C>);

impl<C: Vectorcall> MethodDef<fastcall_cfunction_with_keywords::Func> for Served<C> {
    const METH: fastcall_cfunction_with_keywords::Func = |py, callable, args, nargsf, names| {
        // SAFETY: `vectorcall`, the only user, passes on what Python calls it with.
        unsafe {
            let given = Given::of_call(py, args, nargsf.cast_unsigned(), names);
            called(py, callable, &given, C::call).map(Bound::into_ptr)
        }
    };
}

/// Calls `body` with the object and the arguments, and returns its result to Python.
///
/// # Safety
///
/// The arguments are those with which Python calls an object of the class by vectorcall.
pub unsafe fn serve<C: Vectorcall>(
    callable: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    nargsf: usize,
    names: *mut ffi::PyObject,
    body: impl for<'py> FnOnce(&Bound<'py, C>, &Given<'_, 'py>) -> PyResult<Bound<'py, PyAny>>,
) -> *mut ffi::PyObject {
    let attached = |py: Python<'_>| {
        // SAFETY: the caller vouches for the arguments.
        let result = unsafe {
            let given = Given::of_call(py, args, nargsf, names);
            called(py, callable, &given, body)
        };
        match result {
            Ok(result) => result.into_ptr(),
            Err(error) => {
                error.restore(py);
                std::ptr::null_mut()
            }
        }
    };
    // SAFETY: Python calls from an attached thread; PyO3 only has to take note of that.
    unsafe { Python::attach_unchecked(attached) }
}

/// Calls `body` with the object and the arguments. A panic becomes an exception.
///
/// # Safety
///
/// The conditions of [`serve`].
#[inline]
unsafe fn called<'py, C: Vectorcall>(
    py: Python<'py>,
    callable: *mut ffi::PyObject,
    given: &Given<'_, 'py>,
    body: impl FnOnce(&Bound<'py, C>, &Given<'_, 'py>) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    park::rather_than_end(py);
    interrupt::forget_memory_error();
    let call = || {
        // SAFETY: the callable is an object of the class.
        let object = unsafe { Borrowed::from_ptr(py, callable).cast_unchecked() };
        body(&object, given).map_err(|error| panic::raised(py, error))
    };
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        // SAFETY: the caller keeps the callable alive.
        let callable = unsafe { Borrowed::from_ptr(py, callable) };
        Err(panic::exception(&callable, &*panic))
    })
}

/// The arguments of a call, borrowed from the caller.
pub struct Given<'a, 'py> {
    args: *const *mut ffi::PyObject,
    nargsf: usize,
    names: Option<Borrowed<'a, 'py, PyTuple>>,
}

impl<'a, 'py> Given<'a, 'py> {
    /// A list of arguments, the last of which have these names.
    ///
    /// # Panics
    ///
    /// Panics if there are more names than arguments.
    pub fn of(args: &'a [Borrowed<'a, 'py, PyAny>], names: &'a Bound<'py, PyTuple>) -> Self {
        let nargsf = args.len().checked_sub(names.len()).expect("every name has an argument");
        Given { args: args.as_ptr().cast(), nargsf, names: Some(names.as_borrowed()) }
    }

    /// The arguments of a call by vectorcall.
    ///
    /// # Safety
    ///
    /// They are those that Python passes, with the names as a tuple or null, and live as long as `'a`.
    #[inline]
    pub unsafe fn of_call(
        py: Python<'py>,
        args: *const *mut ffi::PyObject,
        nargsf: usize,
        names: *mut ffi::PyObject,
    ) -> Given<'a, 'py> {
        // SAFETY: as the caller promises.
        let names = unsafe { Borrowed::from_ptr_or_opt(py, names) };
        // SAFETY: the names are a tuple.
        let names = names.map(|names| unsafe { names.cast_unchecked() });
        Given { args, nargsf, names }
    }

    /// The number of positional arguments.
    #[inline]
    pub fn positional(&self) -> usize {
        self.nargsf & !ffi::PY_VECTORCALL_ARGUMENTS_OFFSET
    }

    /// The names of the keyword arguments, which follow the positional ones.
    #[inline]
    pub fn names(&self) -> Option<Borrowed<'a, 'py, PyTuple>> {
        self.names
    }

    /// All arguments, first the positional ones.
    #[inline]
    pub fn all(&self) -> &'a [Borrowed<'a, 'py, PyAny>] {
        let count = self.positional() + self.names.map_or(0, |names| names.len());
        if count == 0 {
            return &[];
        }
        // SAFETY: the caller keeps this many arguments alive, none of which is null. A `Borrowed` has the
        // representation of a pointer.
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

    /// Passes the arguments to another callable unchanged.
    #[inline]
    pub fn pass(&self, function: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: these are the arguments of a call by vectorcall. The flag in `nargsf` lets the callable
        // change the entry before the first one, and was set by the caller.
        unsafe {
            let names = self.names.map_or(std::ptr::null_mut(), |names| names.as_ptr());
            let result = ffi::PyObject_Vectorcall(function.as_ptr(), self.args, self.nargsf, names);
            Bound::from_owned_ptr_or_err(function.py(), result)
        }
    }
}
