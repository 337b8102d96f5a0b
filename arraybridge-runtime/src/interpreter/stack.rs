//! The room that is left on the thread's stack. CPython's limit counts calls, whose frames may be
//! ours and large.

use std::cell::Cell;

use pyo3::exceptions::PyRecursionError;
use pyo3::prelude::*;

/// The room that has to be left for a call: for its conversions, and for the frames of what it
/// calls until the next check.
const NEEDED: usize = 128 << 10;

thread_local! {
    /// The lowest address that a frame may have; `None` before the first call.
    static LIMIT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Checks that there is room on the stack for another call.
///
/// # Errors
///
/// `RecursionError`.
#[inline]
pub fn expect_room() -> PyResult<()> {
    if has_room() { Ok(()) } else { Err(too_deep()) }
}

/// Returns whether there is room on the stack for another call.
#[inline]
pub fn has_room() -> bool {
    let here = 0_u8;
    (&raw const here).addr() >= LIMIT.get().unwrap_or_else(find_limit)
}

#[cold]
fn find_limit() -> usize {
    let limit = stack().map_or(0, |(lowest, size)| lowest + NEEDED.min(size / 4));
    LIMIT.set(Some(limit));
    limit
}

#[cold]
fn too_deep() -> PyErr {
    PyRecursionError::new_err(
        "the thread's stack is nearly used up; call declared functions less deeply, or in a thread with a larger \
         stack (threading.stack_size)",
    )
}

/// The lowest address and the size of this thread's stack.
#[cfg(target_os = "linux")]
fn stack() -> Option<(usize, usize)> {
    use std::mem::MaybeUninit;

    let mut attributes = MaybeUninit::uninit();
    let (mut lowest, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: the attributes are those of this thread. They are read if they were written, and destroyed after that.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let found =
            libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut lowest, &raw mut size);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        (found == 0).then(|| (lowest.addr(), size))
    }
}

#[cfg(target_os = "macos")]
fn stack() -> Option<(usize, usize)> {
    // SAFETY: these read what the system knows of this thread.
    let (highest, size) = unsafe {
        let this = libc::pthread_self();
        (libc::pthread_get_stackaddr_np(this).addr(), libc::pthread_get_stacksize_np(this))
    };
    Some((highest.checked_sub(size)?, size))
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn stack() -> Option<(usize, usize)> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_on_the_stack_of_its_thread() {
        let on_stack = || {
            let here = 0_u8;
            let (lowest, size) = stack()?;
            Some((lowest..lowest + size).contains(&(&raw const here).addr()))
        };
        let of_thread = std::thread::spawn(on_stack).join().unwrap();
        assert!(on_stack().unwrap_or(true) && of_thread.unwrap_or(true));
        assert_eq!(on_stack().is_some(), cfg!(any(target_os = "linux", target_os = "macos")));
    }

    #[test]
    fn a_recursion_ends_before_the_stack_does() {
        fn depth(more: &mut usize) -> PyResult<()> {
            let frame = std::hint::black_box([0_u8; 4 << 10]);
            *more += 1;
            let result = expect_room().and_then(|()| depth(more));
            std::hint::black_box(frame);
            result
        }
        let run = || {
            let mut calls = 0;
            Python::initialize();
            let error = depth(&mut calls).unwrap_err();
            (calls, Python::attach(|py| error.is_instance_of::<PyRecursionError>(py)))
        };
        let thread = std::thread::Builder::new().stack_size(512 << 10).spawn(run).unwrap();
        let (calls, is_recursion) = thread.join().unwrap();
        assert!(is_recursion && (20..128).contains(&calls), "{calls}");
    }
}
