//! A process that was forked from one that had initialized CUDA, in which CUDA does not work.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::binding;

static HAS_LOST: AtomicBool = AtomicBool::new(false);

/// Returns whether this process is known to have been forked from one that had initialized CUDA. Every call of
/// CUDA then fails.
#[inline]
pub fn has_lost_cuda() -> bool {
    HAS_LOST.load(Ordering::Relaxed)
}

/// Notes, in a forked process, that CUDA was initialized in its parent.
pub fn note_lost_cuda() {
    HAS_LOST.store(true, Ordering::Relaxed);
}

/// The reason why a forked process cannot use CUDA, and the way out.
pub fn lost_cuda() -> &'static str {
    binding::get().map_or(
        "this process was forked after CUDA had been initialized, and CUDA does not work in it; start worker \
         processes without a fork, or fork before CUDA is used",
        |binding| binding.lost_cuda,
    )
}

/// Returns whether this process has initialized CUDA. The driver is not loaded for that.
#[cfg(target_os = "linux")]
pub fn is_cuda_initialized() -> bool {
    type GetCurrent = unsafe extern "C" fn(*mut *mut std::ffi::c_void) -> i32;
    [c"libcuda.so.1", c"libcuda.so"].iter().any(|name| {
        // SAFETY: the names are C strings, and a library that is not loaded is left alone. The handle stays open:
        // the driver is never unloaded. The function has this signature in every version of CUDA, needs no
        // initialization, and writes one pointer.
        unsafe {
            let library = libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            if library.is_null() {
                return false;
            }
            let function = libc::dlsym(library, c"cuCtxGetCurrent".as_ptr());
            let mut context = std::ptr::null_mut();
            !function.is_null()
                && std::mem::transmute::<*mut std::ffi::c_void, GetCurrent>(function)(&mut context)
                    == 0
        }
    })
}

/// Returns whether this process has initialized CUDA, as far as is known: such a system has no `fork`.
#[cfg(not(target_os = "linux"))]
pub fn is_cuda_initialized() -> bool {
    false
}
