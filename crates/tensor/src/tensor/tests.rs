use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ndarray::{Array2, Axis, array, s};

use super::*;
use crate::memory::source::counted::counted;

#[test]
fn a_vector_becomes_a_tensor_of_its_own_memory() {
    let elements = vec![1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0];
    let address = elements.as_ptr() as usize;
    let tensor = Tensor::from_vec(elements, &[3, 2]).unwrap();
    assert_eq!(tensor.description().data() as usize, address);
    assert_eq!(tensor.strides(), [8, 4]);
    assert_eq!(*tensor.view::<f32>().unwrap(), array![[1., 2.], [3., 4.], [5., 6.]].into_dyn());
}

#[test]
fn a_tensor_becomes_an_array_of_its_memory_if_nobody_else_has_it() {
    let tensor = Tensor::from_vec(vec![1_u16, 2, 3, 4, 5, 6], &[3, 2]).unwrap();
    let (address, clone) = (tensor.description().data() as usize, tensor.clone());
    let copied = clone.try_into_array::<u16>().unwrap();
    assert_ne!(copied.as_ptr() as usize, address);
    let moved = tensor.try_into_array::<u16>().unwrap();
    assert_eq!((moved.as_ptr() as usize, &moved), (address, &copied));
    for array in [array![[1_i64, 2], [3, 4]].into_dyn(), array![1_i64, 2, 3].into_dyn()] {
        assert_eq!(Tensor::from(array.clone()).try_into_array::<i64>().unwrap(), array);
    }
    let transposed = array![[1.0_f32, 2.0], [3.0, 4.0]].reversed_axes();
    let address = transposed.as_ptr();
    let moved = Tensor::from(transposed.clone()).try_into_array::<f32>().unwrap();
    assert_eq!((&moved, moved.strides()), (&transposed.clone().into_dyn(), &[1, 2][..]));
    assert_eq!(Tensor::from(transposed).try_into_array::<f32>().unwrap().as_ptr(), address);
    let bytes = Tensor::from_bytes(&[1, 0, 1], DType::Bool, &[3]).unwrap();
    assert!(bytes.clone().try_into_array::<u8>().is_err());
    assert_eq!(bytes.try_into_array::<bool>().unwrap(), array![true, false, true].into_dyn());
}

#[test]
fn a_shape_that_does_not_fit_is_an_error() {
    assert!(Tensor::from_vec(vec![0_u8; 5], &[2, 3]).is_err());
    assert!(Tensor::from_vec(vec![0_u8; 0], &[usize::MAX, 2]).is_err());
    assert!(Tensor::from_bytes(&[0; 7], DType::Uint16, &[3]).is_err());
    assert!(Tensor::from_bytes(&[2], DType::Bool, &[1]).is_err());
}

#[test]
fn a_shape_that_ndarray_cannot_have_is_an_error() {
    for shape in [[0, 1 << 62, 4], [1 << 62, 0, 4], [1 << 62, 4, 0]] {
        let tensor = Tensor::from_vec(Vec::<u8>::new(), &shape).unwrap();
        let error = tensor.view::<u8>().unwrap_err().to_string();
        assert_eq!(error, "the shape is larger than the address space");
    }
    assert!(Tensor::from_vec(Vec::<u8>::new(), &[0, 1 << 62]).unwrap().view::<u8>().is_ok());
}

#[test]
fn an_array_keeps_its_strides_whatever_they_are() {
    let array = Array2::from_shape_fn((4, 6), |(y, x)| (10 * y + x) as i32);
    let mut strided = array.clone().slice_move(s![1..;2, ..;3]);
    strided.invert_axis(Axis(1));
    let (transposed, expected) = (array.clone().reversed_axes(), strided.clone().into_dyn());
    assert_eq!(*Tensor::from(strided).view::<i32>().unwrap(), expected);
    let tensor = Tensor::from(transposed);
    assert_eq!(tensor.strides(), [4, 24]);
    assert_eq!(*tensor.view::<i32>().unwrap(), array.t().into_dyn());
}

#[test]
fn another_element_type_is_an_error_that_names_both() {
    let error = Tensor::from_vec(vec![0_u8], &[1]).unwrap().view::<f32>().unwrap_err();
    let text = error.to_string();
    assert!(text.contains("float32") && text.contains("uint8"), "{text}");
}

#[test]
fn the_memory_is_freed_once() {
    let drops = Arc::new(AtomicUsize::new(0));
    let tensor = Tensor::from(counted(&drops));
    let clone = tensor.clone();
    std::thread::spawn(move || drop(tensor)).join().unwrap();
    assert_eq!(drops.load(Ordering::SeqCst), 0);
    drop(clone);
    assert_eq!(drops.load(Ordering::SeqCst), 1);
}

/// ThreadSanitizer sees the race if the memory is freed while another thread reads it.
#[test]
fn clones_are_read_and_dropped_on_any_thread() {
    let drops = Arc::new(AtomicUsize::new(0));
    let tensor = Tensor::from(counted(&drops));
    let total = |tensor: Tensor| tensor.view::<u8>().unwrap().iter().count();
    let len = total(tensor.clone());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            let tensor = tensor.clone();
            scope.spawn(move || assert_eq!(total(tensor.clone()), len));
        }
        drop(tensor);
    });
    assert_eq!(drops.load(Ordering::SeqCst), 1);
}

#[test]
fn a_clone_shares_the_memory_which_is_then_read_only_for_others() {
    let tensor = Tensor::from_vec(vec![1_u8, 2], &[2]).unwrap();
    let address = tensor.description().data();
    let (first, second) = (tensor.clone(), tensor.clone().clone());
    assert_eq!(*second.view::<u8>().unwrap(), array![1, 2].into_dyn());
    let shared = first.into_parts().0;
    assert_eq!(shared.view().data(), address);
    assert!(shared.view().is_read_only());
    drop((shared, second));
    let last = tensor.into_parts().0;
    assert!(!last.view().is_read_only() && matches!(last.owner(), Owner::Value(_)));
}
