//! Values of objects of Python that run code when they are dropped, such as a producer's deleter.
//!
//! CPython drops the arguments of a call after the call has raised. A deleter of Python code, with `ctypes` say, would
//! find that exception, and CPython would lose it.

use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr;

use pyo3::ffi;

/// A value in an object of Python, whose drop leaves the exception that is being raised alone.
pub struct Held<T>(ManuallyDrop<T>);

impl<T> From<T> for Held<T> {
    fn from(value: T) -> Held<T> {
        Held(ManuallyDrop::new(value))
    }
}

impl<T> Deref for Held<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        // SAFETY: nobody uses the value after its drop.
        apart(|| unsafe { ManuallyDrop::drop(&mut self.0) });
    }
}

/// Calls a function without the exception that the thread is raising, and raises that again. The thread is attached, as
/// where CPython frees an object.
pub fn apart(call: impl FnOnce()) {
    let mut raised = [ptr::null_mut(); 3];
    let [class, value, traceback] = &mut raised;
    // SAFETY: the thread is attached. The functions write to three pointers, and take them back.
    unsafe {
        if ffi::PyErr_Occurred().is_null() {
            return call();
        }
        #[allow(deprecated, reason = "CPython 3.11 has no other functions")]
        {
            ffi::PyErr_Fetch(class, value, traceback);
            call();
            ffi::PyErr_Restore(raised[0], raised[1], raised[2]);
        }
    }
}
