use dlpark::ffi::{DLDevice, DLDeviceType};

use super::*;
use arraybridge_tensor::memory::source::Source;

#[test]
fn memory_of_a_device_does_not_become_a_numpy_array() {
    let (view, owner) = Source::from_slice(&[1_u8, 2], &[2]).unwrap().into_parts();
    let cuda = DLDevice { device_type: DLDeviceType::CUDA, device_id: 0 };
    // SAFETY: the owner is that of the view's memory.
    let source = unsafe { Source::new(view.on(cuda), owner) };
    Python::attach(|py| {
        let error = source.hand_over(|memory| wrap(py, memory, |_| None)).unwrap_err();
        assert!(error.is_instance_of::<PyBufferError>(py));
    });
}

#[test]
fn an_extended_dtype_that_is_not_a_dtype_is_refused() {
    Python::attach(|py| {
        load(py).unwrap();
        let source = Source::from_slice(&[half::bf16::ONE], &[1]).unwrap();
        let no_dtype = |_| Some(py.None().into_bound(py));
        let made = source.hand_over(|memory| wrap(py, memory, no_dtype)).unwrap();
        assert!(made.is_none());
    });
}
