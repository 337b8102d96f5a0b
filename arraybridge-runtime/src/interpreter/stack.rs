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
    let limit = stack().map_or(0, |(lowest, size)| lowest + NEEDED.min(size / 2));
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
    first_stack("/proc/self/maps").or_else(fixed_stack)
}

/// The stack that the process began with, if this frame is on it, as far as it can grow.
/// `pthread_getattr_np` tells how far musl has mapped it, and fails on glibc without `maps`.
#[cfg(target_os = "linux")]
fn first_stack(maps: &str) -> Option<(usize, usize)> {
    /// Linux keeps this distance to the memory below, unless the system was booted with another.
    const GAP: usize = 1 << 20;

    let here = (&raw const maps).addr();
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the first two only return a number; the last one writes what is not read unless it succeeds.
    unsafe {
        // A thread that forked is the first of the child, but has a stack of fixed size.
        if libc::gettid() != libc::getpid() {
            return None;
        }
        libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit);
    }
    let limit = usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX);
    let Ok(maps) = std::fs::read_to_string(maps) else {
        // A part of the stack is above this frame already. Half is a guess.
        let lowest = here.saturating_sub(limit / 2);
        return Some((lowest, here - lowest));
    };
    let mut below = 0;
    for line in maps.lines() {
        let (range, of) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let (from, to) =
            (usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?);
        if (from..to).contains(&here) {
            let lowest = to.saturating_sub(limit).max(below + GAP).min(from);
            return of.ends_with("[stack]").then(|| (lowest, to - lowest));
        }
        below = to;
    }
    None
}

/// A stack whose size does not change.
#[cfg(target_os = "linux")]
fn fixed_stack() -> Option<(usize, usize)> {
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
mod tests;
