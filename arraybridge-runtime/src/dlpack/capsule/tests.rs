use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ffi::{PyMem_GetAllocator, PyMem_SetAllocator, PyMemAllocatorDomain, PyMemAllocatorEx};
use pyo3::exceptions::PyMemoryError;

use super::*;
use arraybridge_tensor::dlpack::managed;
use arraybridge_tensor::memory::source::counted::counted;

/// Runs `body` while Python cannot allocate objects.
fn without_memory<T>(_py: Python<'_>, body: impl FnOnce() -> T) -> T {
    extern "C" fn malloc(_: *mut c_void, _: usize) -> *mut c_void {
        ptr::null_mut()
    }
    extern "C" fn calloc(_: *mut c_void, _: usize, _: usize) -> *mut c_void {
        ptr::null_mut()
    }
    extern "C" fn realloc(_: *mut c_void, _: *mut c_void, _: usize) -> *mut c_void {
        ptr::null_mut()
    }
    extern "C" fn free(before: *mut c_void, memory: *mut c_void) {
        // SAFETY: the context is the allocator that the memory came from.
        unsafe {
            let before = &*before.cast::<PyMemAllocatorEx>();
            before.free.unwrap()(before.ctx, memory);
        }
    }
    let domain = PyMemAllocatorDomain::PYMEM_DOMAIN_OBJ;
    let nothing = PyMemAllocatorEx {
        ctx: ptr::null_mut(),
        malloc: None,
        calloc: None,
        realloc: None,
        free: None,
    };
    let (mut before, mut none) = (nothing, nothing);
    // SAFETY: the thread is attached until the previous allocator is back.
    unsafe {
        PyMem_GetAllocator(domain, &mut before);
        none.ctx = (&raw mut before).cast();
        none.malloc = Some(malloc);
        none.calloc = Some(calloc);
        none.realloc = Some(realloc);
        none.free = Some(free);
        PyMem_SetAllocator(domain, &mut none);
        let done = body();
        PyMem_SetAllocator(domain, &mut before);
        done
    }
}

#[test]
fn a_tensor_is_freed_where_there_is_no_memory_for_its_capsule() {
    Python::attach(|py| {
        // PyO3 makes a class of its own for the first exception.
        assert!(py.import("no_such_module").is_err());
        let frees = Arc::new(AtomicUsize::new(0));
        let versioned = counted(&frees).hand_over(managed::versioned);
        let legacy = counted(&frees).hand_over(managed::legacy);
        let (one, other) =
            without_memory(py, || (versioned.into_pyobject(py), legacy.into_pyobject(py)));
        assert!(one.unwrap_err().is_instance_of::<PyMemoryError>(py));
        assert!(other.unwrap_err().is_instance_of::<PyMemoryError>(py));
        assert_eq!(frees.load(Ordering::SeqCst), 2);
    });
}

#[test]
fn a_capsule_is_consumed_once() {
    Python::attach(|py| {
        let frees = Arc::new(AtomicUsize::new(0));
        let capsule = counted(&frees).hand_over(managed::versioned).into_pyobject(py).unwrap();
        let source = take(&capsule).unwrap();
        assert!(take(&capsule).is_err());
        drop(capsule);
        assert_eq!(frees.load(Ordering::SeqCst), 0);
        drop(source);
        assert_eq!(frees.load(Ordering::SeqCst), 1);
    });
}
