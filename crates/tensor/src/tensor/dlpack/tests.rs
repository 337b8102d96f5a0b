use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dlpark::DlpackFlags;
use dlpark::ffi::{DLDataType, DLDevice, DLDeviceType};
use ndarray::array;

use super::*;
use crate::memory::source::counted::counted;
use arraybridge_host::dtype::DType;

#[test]
fn the_memory_goes_there_and_back_without_a_copy() {
    let array = array![[1_i32, 2, 3], [4, 5, 6]].reversed_axes();
    let (address, expected) = (array.as_ptr() as usize, array.clone().into_dyn());
    let exported = Tensor::from(array).into_dlpack().unwrap();
    // SAFETY: the memory is the array's, which nobody else has.
    let tensor = unsafe { Tensor::from_dlpack(exported) }.unwrap();
    assert_eq!(tensor.description().data() as usize, address);
    assert_eq!((tensor.dtype(), tensor.strides()), (DType::Int32, &[4, 12][..]));
    assert_eq!(*tensor.view::<i32>().unwrap(), expected);
    assert!(!tensor.is_read_only());
}

#[test]
fn the_memory_is_freed_with_its_last_user() {
    let frees = Arc::new(AtomicUsize::new(0));
    let exported = Tensor::from(counted(&frees)).into_dlpack().unwrap();
    // SAFETY: nobody writes to the memory.
    let tensor = unsafe { Tensor::from_dlpack(exported) }.unwrap();
    let other = tensor.clone().into_dlpack().unwrap();
    drop(tensor);
    assert_eq!(frees.load(Ordering::SeqCst), 0);
    std::thread::spawn(move || drop(other)).join().unwrap();
    assert_eq!(frees.load(Ordering::SeqCst), 1);
}

#[test]
fn memory_that_rust_still_has_is_exported_as_read_only() {
    let tensor = Tensor::from_vec(vec![1_u8, 2], &[2]).unwrap();
    let shared = tensor.clone().into_dlpack().unwrap();
    assert!(shared.flags().contains(DlpackFlags::READ_ONLY));
    drop(shared);
    assert!(!tensor.into_dlpack().unwrap().flags().contains(DlpackFlags::READ_ONLY));
}

#[test]
fn a_legacy_tensor_is_read_only() {
    let legacy = counted(&Arc::default()).hand_over(managed::legacy);
    // SAFETY: nobody writes to the memory.
    let tensor = unsafe { Tensor::from_dlpack(legacy) }.unwrap();
    assert!(tensor.is_read_only());
    assert_eq!(*tensor.view::<u8>().unwrap(), array![1, 2].into_dyn());
}

#[test]
fn what_cannot_be_read_is_an_error_and_freed() {
    let changes: [fn(&mut DLManagedTensorVersioned); 5] = [
        |tensor| tensor.dl_tensor.ndim = -1,
        |tensor| tensor.dl_tensor.dtype = DLDataType { lanes: 3, ..DLDataType::U8 },
        |tensor| tensor.dl_tensor.data = std::ptr::null_mut(),
        |tensor| tensor.dl_tensor.strides = std::ptr::null_mut(),
        |tensor| {
            let device_type = DLDeviceType::METAL;
            tensor.dl_tensor.device = DLDevice { device_type, device_id: 0 };
        },
    ];
    for (index, change) in changes.into_iter().enumerate() {
        let frees = Arc::new(AtomicUsize::new(0));
        let raw = counted(&frees).hand_over(managed::versioned).into_raw();
        // SAFETY: the tensor is alive, and the changed descriptor has no wrong address.
        let result = unsafe {
            change(&mut *raw);
            Tensor::from_dlpack(Managed::from_raw(raw).unwrap())
        };
        assert!(matches!(result, Err(Error::Value(_))), "change {index}");
        assert_eq!(frees.load(Ordering::SeqCst), 1, "change {index}");
    }
}

#[test]
fn bools_that_are_neither_are_not_lent() {
    let bytes = Tensor::from_vec(vec![0_u8, 2], &[2]).unwrap();
    let raw = bytes.into_dlpack().unwrap().into_raw();
    // SAFETY: the tensor is alive, and a bool has as many bytes.
    let tensor = unsafe {
        (*raw).dl_tensor.dtype = DType::Bool.dlpack();
        Tensor::from_dlpack(Managed::from_raw(raw).unwrap()).unwrap()
    };
    assert!(tensor.view::<bool>().is_err());
    assert!(tensor.to_contiguous().unwrap().view::<bool>().is_err());
    #[cfg(feature = "casts")]
    {
        let whole = tensor.cast(DType::Uint8).unwrap();
        assert_eq!(*whole.view::<u8>().unwrap(), array![0, 1].into_dyn());
    }
}
