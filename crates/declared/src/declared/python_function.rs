//! Declared Python functions, which are Python functions themselves.
//!
//! `arraybridge._declared.function` makes them. They have their [`Declared`] in a closure and call it. CPython 3.12
//! and later call a vectorcall of ours instead of their code, unless a tool looks at every frame.

use arraybridge_runtime::interpreter::package::Part;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use super::Declared;
use arraybridge_runtime::interpreter::error::Result;

/// A Python function that looks like `function` and calls `declared`.
pub(super) fn calling<'py>(
    declared: &Bound<'py, Declared>,
    function: &Bound<'py, PyAny>,
) -> Result<Bound<'py, PyAny>> {
    static FUNCTION_OF: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = Part::Function.attribute(declared.py(), &FUNCTION_OF, "function_of")?;
    let calling = make.call1((declared, function))?;
    fast::install(&calling)?;
    Ok(calling)
}

/// True once Dynamo has met a call that it leaves outside its graph.
static BREAKS_GRAPHS: AtomicBool = AtomicBool::new(false);

/// Has calls of functions of other frameworks than PyTorch look for Dynamo, which would read the frames below them.
pub fn watch_dynamo() {
    BREAKS_GRAPHS.store(true, Ordering::Relaxed);
}

/// The vectorcall. CPython 3.11 runs the code of every Python function, and the stable interface does not
/// give access to it.
#[cfg(all(Py_3_12, unix, not(Py_LIMITED_API), not(PyPy), not(GraalPy)))]
mod fast {
    use arraybridge_runtime::interpreter::package::Part;
    use std::sync::OnceLock;
    use std::sync::atomic::Ordering;

    use pyo3::ffi;
    use pyo3::prelude::*;
    use pyo3::sync::PyOnceLock;

    use crate::declared::{Declared, passthrough};
    use arraybridge_runtime::framework::generated::MemoryType;
    use arraybridge_runtime::interpreter::vectorcall::serve;

    unsafe extern "C" {
        fn PyFunction_SetVectorcall(function: *mut ffi::PyObject, call: ffi::vectorcallfunc);
    }

    /// The vectorcall of Python's own functions. It is read from one of them, since CPython 3.13
    /// does not export its name.
    static OWN: OnceLock<ffi::vectorcallfunc> = OnceLock::new();

    /// Lets Python go straight to the [`Declared`] of a function.
    pub fn install(function: &Bound<'_, PyAny>) -> PyResult<()> {
        #[cfg(Py_GIL_DISABLED)]
        lasting::keep(function)?;
        // SAFETY: it is a Python function, and no thread has called it yet. `vectorcall` implements the
        // protocol for Python functions.
        unsafe {
            let Some(own) = ffi::PyVectorcall_Function(function.as_ptr()) else { return Ok(()) };
            OWN.get_or_init(|| own);
            PyFunction_SetVectorcall(function.as_ptr(), vectorcall);
        }
        Ok(())
    }

    /// Objects that live as long as the process. Without the GIL, threads that call one function would else wait for
    /// each other, to lock its cell and to count references to the object in it.
    #[cfg(Py_GIL_DISABLED)]
    mod lasting {
        use std::cell::Cell;
        use std::sync::atomic::{AtomicPtr, Ordering};

        use arraybridge_runtime::intern;
        use pyo3::ffi;
        use pyo3::prelude::*;

        use crate::declared::Declared;

        const SLOTS: usize = 32;

        thread_local! {
            /// Such objects that this thread has called last.
            static RECENT: [Cell<*mut ffi::PyObject>; SLOTS] =
                const { [const { Cell::new(std::ptr::null_mut()) }; SLOTS] };
        }

        fn slot(object: *mut ffi::PyObject) -> usize {
            (object.addr() >> 4) % SLOTS
        }

        /// Keeps the object of a function for ever, unless the function is made inside another one, which may happen
        /// any number of times. CPython does without counting references to its functions in the same cases.
        pub fn keep(function: &Bound<'_, PyAny>) -> PyResult<()> {
            let py = function.py();
            let flags: i32 =
                function.getattr(intern!(py, "__code__"))?.getattr("co_flags")?.extract()?;
            if flags & ffi::CO_NESTED == 0 {
                let cell = function.getattr(intern!(py, "__closure__"))?.get_item(0)?;
                let declared = cell.getattr("cell_contents")?.cast_into::<Declared>()?;
                declared.get().definition().lasts.store(true, Ordering::Relaxed);
                std::mem::forget(declared);
            }
            Ok(())
        }

        /// The contents of a cell, if they are an object that this thread has noted.
        ///
        /// # Safety
        ///
        /// `cell` is a cell that is alive.
        #[inline]
        pub unsafe fn contents<'a, 'py>(
            py: Python<'py>,
            cell: *mut ffi::PyObject,
        ) -> Option<Borrowed<'a, 'py, Declared>> {
            // SAFETY: another thread may set the contents, so they are read at once. If their address is noted, they
            // are a `Declared` that is never freed.
            unsafe {
                let place = &raw mut (*cell.cast::<ffi::PyCellObject>()).ob_ref;
                let found = AtomicPtr::from_ptr(place).load(Ordering::Acquire);
                let is_noted = RECENT.with(|recent| recent[slot(found)].get() == found);
                (is_noted && !found.is_null())
                    .then(|| Borrowed::from_ptr(py, found).cast_unchecked::<Declared>())
            }
        }

        /// Notes an object for [`contents`], if it is one that lasts.
        pub fn note(declared: &Bound<'_, Declared>) {
            if declared.get().definition().lasts.load(Ordering::Relaxed) {
                let object = declared.as_ptr();
                RECENT.with(|recent| recent[slot(object)].set(object));
            }
        }
    }

    #[inline]
    fn is_watched(declared: &Bound<'_, Declared>) -> bool {
        super::BREAKS_GRAPHS.load(Ordering::Relaxed)
            && declared.get().definition().options.execution.memory_type != MemoryType::Torch
    }

    /// Calls a function outside the graph of Dynamo.
    ///
    /// # Safety
    ///
    /// The conditions of Python's `vectorcallfunc`.
    #[cold]
    unsafe fn call_outside(
        declared: &Bound<'_, Declared>,
        args: *const *mut ffi::PyObject,
        nargsf: usize,
        names: *mut ffi::PyObject,
    ) -> *mut ffi::PyObject {
        static OUTSIDE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let outside = match Part::Dynamo.attribute(declared.py(), &OUTSIDE, "outside") {
            Ok(outside) => outside,
            Err(error) => {
                error.restore(declared.py());
                return std::ptr::null_mut();
            }
        };
        // SAFETY: the arguments are valid by this function's contract, those by name after those by position.
        unsafe {
            let count = ffi::PyVectorcall_NARGS(nargsf) as usize;
            let named = if names.is_null() { 0 } else { ffi::PyTuple_GET_SIZE(names) as usize };
            let mut all = Vec::with_capacity(1 + count + named);
            all.push(declared.as_ptr());
            all.extend((0..count + named).map(|index| *args.add(index)));
            ffi::PyObject_Vectorcall(outside.as_ptr(), all.as_ptr(), 1 + count, names)
        }
    }

    /// Calls the [`Declared`] in the closure of a function.
    ///
    /// # Safety
    ///
    /// Python calls it for a Python function.
    unsafe extern "C" fn vectorcall(
        callable: *mut ffi::PyObject,
        args: *const *mut ffi::PyObject,
        nargsf: usize,
        names: *mut ffi::PyObject,
    ) -> *mut ffi::PyObject {
        // SAFETY: Python calls this from an attached thread for a function that `install` was called for. Its
        // closure has one cell, and cannot be set. The contents of the cell can be, so they are checked, and a
        // reference to them is held during the call, unless they are never freed.
        unsafe {
            let py = Python::assume_attached();
            let cell = ffi::PyTuple_GET_ITEM(ffi::PyFunction_GetClosure(callable), 0);
            #[cfg(Py_GIL_DISABLED)]
            if let Some(declared) = lasting::contents(py, cell) {
                return call(&declared, args, nargsf, names);
            }
            let contents = Bound::from_owned_ptr_or_opt(py, ffi::PyCell_Get(cell));
            match contents.map(|contents| contents.cast_into::<Declared>()) {
                Some(Ok(declared)) => {
                    #[cfg(Py_GIL_DISABLED)]
                    lasting::note(&declared);
                    call(&declared, args, nargsf, names)
                }
                _ => {
                    let own = OWN.get().expect("`install` has set it");
                    own(callable, args, nargsf, names)
                }
            }
        }
    }

    /// Calls a [`Declared`], outside the graph of Dynamo if that reads the frames below.
    ///
    /// # Safety
    ///
    /// The conditions of Python's `vectorcallfunc`.
    #[inline]
    unsafe fn call(
        declared: &Bound<'_, Declared>,
        args: *const *mut ffi::PyObject,
        nargsf: usize,
        names: *mut ffi::PyObject,
    ) -> *mut ffi::PyObject {
        // SAFETY: the arguments are valid by this function's contract.
        unsafe {
            if is_watched(declared) {
                call_outside(declared, args, nargsf, names)
            } else {
                serve(declared.as_ptr(), args, nargsf, names, passthrough::call)
            }
        }
    }
}

#[cfg(not(all(Py_3_12, unix, not(Py_LIMITED_API), not(PyPy), not(GraalPy))))]
mod fast {
    use pyo3::prelude::*;

    pub fn install(_function: &Bound<'_, PyAny>) -> PyResult<()> {
        Ok(())
    }
}
