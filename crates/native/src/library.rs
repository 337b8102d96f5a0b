//! Functions of a library that the process has loaded.

use std::ffi::{CStr, c_void};

use crate::error::Error;

/// A library.
#[derive(Debug)]
pub(crate) struct Library(#[cfg(unix)] *mut c_void);

// SAFETY: it is a name for a library, which all threads may use.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    /// The library of a file, which the process has loaded already.
    ///
    /// # Errors
    ///
    /// It has not.
    #[cfg(unix)]
    pub(crate) fn loaded(path: &CStr) -> Result<Library, Error> {
        // SAFETY: with this flag it loads nothing, and runs no code of a library.
        let found = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        match found.is_null() {
            true => Err(Error::internal(format_args!("{path:?} is not loaded"))),
            false => Ok(Library(found)),
        }
    }

    /// The library of a file.
    ///
    /// # Errors
    ///
    /// Exceptions of C++ pass through Rust by the rules of Unix only.
    #[cfg(not(unix))]
    pub(crate) fn loaded(_: &CStr) -> Result<Library, Error> {
        Err(Error::internal(
            "there are native operators of PyTorch and TensorFlow on Linux and macOS only",
        ))
    }

    /// A function.
    ///
    /// # Errors
    ///
    /// There is none of this name.
    ///
    /// # Safety
    ///
    /// `F` is the type of the function.
    pub(crate) unsafe fn function<F: Copy>(&self, name: &CStr) -> Result<F, Error> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        // SAFETY: the library stays loaded.
        #[cfg(unix)]
        let found = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        #[cfg(not(unix))]
        let found: *mut c_void = std::ptr::null_mut();
        if found.is_null() {
            return Err(Error::internal(format_args!("the library has no {name:?}")));
        }
        // SAFETY: the caller knows the type.
        Ok(unsafe { std::mem::transmute_copy(&found) })
    }
}
