//! The borrows of rust-numpy as claims, for all extensions of the process that are built with rust-numpy.
//!
//! rust-numpy looks for the functions that check its borrows in a capsule of NumPy's module, and publishes its own
//! if there is none. Where the package comes first, the capsule has the functions of this file.

use std::ffi::{CStr, c_int, c_void};
use std::ptr::{self, NonNull};

use numpy::PyUntypedArray;
use numpy::npyffi::PyArrayObject;
use pyo3::Borrowed;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods};

use arraybridge_tensor::claims::REGISTRY;

use crate::memory::numpy_array;

const NAME: &CStr = c"_RUST_NUMPY_BORROW_CHECKING_API";

/// rust-numpy's structure, in its version 1. Later versions only add fields at the end.
#[repr(C)]
struct Functions {
    version: u64,
    /// The first argument of each function.
    flags: *mut c_void,
    acquire: unsafe extern "C" fn(*mut c_void, *mut PyArrayObject) -> c_int,
    acquire_mut: unsafe extern "C" fn(*mut c_void, *mut PyArrayObject) -> c_int,
    release: unsafe extern "C" fn(*mut c_void, *mut PyArrayObject),
    release_mut: unsafe extern "C" fn(*mut c_void, *mut PyArrayObject),
}

// SAFETY: the pointer is null, and nobody writes to the structure.
unsafe impl Sync for Functions {}

static OWN: Functions =
    Functions { version: 1, flags: ptr::null_mut(), acquire, acquire_mut, release, release_mut };

const FREE: c_int = 0;
const BORROWED: c_int = -1;
const NOT_WRITEABLE: c_int = -2;

/// Publishes the functions, unless others are published already. Returns whether these are the published ones.
/// Does nothing without the GIL: rust-numpy looks for the functions, and publishes its own in a second step, so
/// that it could replace these.
pub fn publish(py: Python<'_>) -> PyResult<bool> {
    if cfg!(Py_GIL_DISABLED) {
        return Ok(false);
    }
    // The functions need NumPy's version, and have no way to raise what the search for it may raise.
    numpy_array::load(py)?;
    let own = NonNull::from(&OWN).cast();
    // SAFETY: the pointer is to a static, and the capsule has no destructor.
    let capsule = unsafe { PyCapsule::new_with_pointer(py, own, NAME)? };
    let attributes = numpy::get_array_module(py)?.dict();
    let name = crate::intern!(py, "_RUST_NUMPY_BORROW_CHECKING_API");
    let published = attributes.call_method1("setdefault", (name, capsule))?;
    let published = published.cast::<PyCapsule>().ok();
    Ok(published.is_some_and(|capsule| capsule.pointer_checked(Some(NAME)).ok() == Some(own)))
}

unsafe extern "C" fn acquire(_: *mut c_void, array: *mut PyArrayObject) -> c_int {
    // SAFETY: rust-numpy passes an array, and is attached.
    unsafe { borrow(array, false) }
}

unsafe extern "C" fn acquire_mut(_: *mut c_void, array: *mut PyArrayObject) -> c_int {
    // SAFETY: as above.
    unsafe { borrow(array, true) }
}

unsafe extern "C" fn release(_: *mut c_void, array: *mut PyArrayObject) {
    REGISTRY.give_back(ticket(array, false));
}

unsafe extern "C" fn release_mut(_: *mut c_void, array: *mut PyArrayObject) {
    REGISTRY.give_back(ticket(array, true));
}

/// Claims the memory of an array.
///
/// # Safety
///
/// The object is a NumPy array, and the interpreter is attached.
unsafe fn borrow(array: *mut PyArrayObject, writes: bool) -> c_int {
    let number = ticket(array, writes);
    // SAFETY: the caller promises it.
    let array = unsafe {
        let py = Python::assume_attached();
        Borrowed::from_ptr(py, array.cast()).cast_unchecked::<PyUntypedArray>()
    };
    if writes && !numpy_array::is_writeable(&array) {
        return NOT_WRITEABLE;
    }
    let memory = numpy_array::elements(&array);
    let is_empty = memory.size == 0 || memory.shape.contains(&0);
    if is_empty || REGISTRY.borrow(number, memory, writes) { FREE } else { BORROWED }
}

/// The ticket of an array's borrows, whatever becomes of its shape. A borrow keeps its array, so no other one has
/// this address. The tickets of calls are below, since they are counted from 1.
fn ticket(array: *mut PyArrayObject, writes: bool) -> u64 {
    1 << 63 | array.addr() as u64 | u64::from(writes)
}
