use arraybridge_tensor::binding::wait;

use super::*;

#[test]
fn a_wait_of_the_driver_may_call_into_python() {
    Python::attach(|_| {
        // SAFETY: any thread may ask this.
        let attached = || unsafe { ffi::PyGILState_Check() == 1 };
        let (before, during) = wait(|| (attached(), Python::attach(|_| attached())));
        assert!(!before && during && attached());
    });
}

#[test]
fn a_reference_is_dropped_on_a_thread_that_is_not_attached() {
    let (object, held) = Python::attach(|py| {
        let object = pyo3::types::PyList::empty(py).into_any();
        let held = DetachedRef::new(&object);
        (object.unbind(), held)
    });
    std::thread::spawn(move || drop(held)).join().unwrap();
    // SAFETY: the object is alive, and the thread attached.
    assert_eq!(Python::attach(|_| unsafe { ffi::Py_REFCNT(object.as_ptr()) }), 1);
}
