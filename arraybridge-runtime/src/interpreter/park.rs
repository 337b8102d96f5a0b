//! Threads that are still at work when the interpreter ends.
//!
//! CPython before 3.14 ends such a thread with `pthread_exit` as soon as it wants to run Python code. The C library
//! then unwinds its stack, which ends the process where frames of Rust are on it, or takes away what other threads
//! still use. So a cleanup handler is registered for each thread that comes here. It is called before the first frame
//! is unwound, and never returns: the thread waits for the end of the process.

use pyo3::prelude::*;

use super::detached;

/// Lets this thread wait for the end of the process where the interpreter would end it. To be called before Python
/// code is called, in each thread.
#[inline]
pub fn rather_than_end(py: Python<'_>) {
    handler::register(py);
}

/// The handlers of C libraries that unwind, or that could take the stack away. `pthread_exit` does neither on other
/// systems.
#[cfg(target_os = "linux")]
mod handler {
    use std::cell::Cell;
    use std::ffi::{c_int, c_void};
    use std::mem::transmute;
    use std::ptr;
    use std::sync::OnceLock;
    use std::thread;

    use super::{Python, detached};

    type Push = unsafe extern "C" fn(*mut c_void, extern "C" fn(*mut c_void), *mut c_void);
    type Pop = unsafe extern "C" fn(*mut c_void, c_int);

    /// Room for the C library's `_pthread_cleanup_buffer`, which has three or four words.
    type Buffer = [usize; 8];

    /// The registration of a thread, which ends with the thread.
    struct Registration(Cell<*mut Buffer>);

    thread_local! {
        static REGISTRATION: Registration = const { Registration(Cell::new(ptr::null_mut())) };
    }

    #[inline]
    pub fn register(py: Python<'_>) {
        // A thread that is ending has no registration any more.
        let _ = REGISTRATION.try_with(|registration| {
            if registration.0.get().is_null() {
                registration.make(py);
            }
        });
    }

    impl Registration {
        #[cold]
        fn make(&self, py: Python<'_>) {
            let Some((push, _)) = functions() else { return };
            if detached::watch_finalization(py).is_err() {
                return;
            }
            // The C library takes the address for a place on the stack, and calls the handlers of the places that
            // it has left. One on the heap counts as left from the beginning.
            let buffer = Box::into_raw(Box::new([0; 8]));
            self.0.set(buffer);
            // SAFETY: the buffer is large enough, and stays where it is until it is popped.
            unsafe { push(buffer.cast(), wait, ptr::null_mut()) };
        }
    }

    impl Drop for Registration {
        fn drop(&mut self) {
            let buffer = self.0.replace(ptr::null_mut());
            if let Some((_, pop)) = functions().filter(|_| !buffer.is_null()) {
                // SAFETY: the buffer was pushed by this thread, was made by a box, and is not used after this.
                unsafe {
                    pop(buffer.cast(), 0);
                    drop(Box::from_raw(buffer));
                }
            }
        }
    }

    extern "C" fn wait(_: *mut c_void) {
        while detached::is_finalizing() {
            thread::park();
        }
    }

    /// The functions that `pthread_cleanup_push` and `pthread_cleanup_pop` of `pthread.h` call.
    /// They are looked up by name, since their version in a build machine's library may be newer
    /// than the one at hand.
    fn functions() -> Option<(Push, Pop)> {
        static FUNCTIONS: OnceLock<Option<(Push, Pop)>> = OnceLock::new();
        *FUNCTIONS.get_or_init(|| {
            // SAFETY: the names end with a null. The functions have these signatures in each C library that has
            // them.
            unsafe {
                let push = libc::dlsym(libc::RTLD_DEFAULT, c"_pthread_cleanup_push".as_ptr());
                let pop = libc::dlsym(libc::RTLD_DEFAULT, c"_pthread_cleanup_pop".as_ptr());
                let found = !push.is_null() && !pop.is_null();
                found.then(|| {
                    (transmute::<*mut c_void, Push>(push), transmute::<*mut c_void, Pop>(pop))
                })
            }
        })
    }
}

#[cfg(not(target_os = "linux"))]
mod handler {
    #[inline]
    pub fn register(_: super::Python<'_>) {}
}
