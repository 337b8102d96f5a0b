use ndarray::{Axis, array};

use super::*;
use crate::claims::{Claim, User, Wanted};
use crate::error::Error;
use crate::memory::view::View;

#[test]
fn a_cast_of_a_strided_tensor_is_contiguous_and_in_the_order_of_the_axes() {
    let mut array = array![[1_u8, 2, 3], [4, 5, 6]].reversed_axes();
    array.invert_axis(Axis(0));
    let cast = Tensor::from(array.clone()).cast(DType::Float64).unwrap();
    assert_eq!((cast.dtype(), cast.strides()), (DType::Float64, &[16, 8][..]));
    assert_eq!(*cast.view::<f64>().unwrap(), array.mapv(f64::from).into_dyn());
    let copy = Tensor::from(array.clone()).to_contiguous().unwrap();
    assert_eq!((copy.dtype(), copy.strides()), (DType::Uint8, &[2, 1][..]));
    assert_eq!(*copy.view::<u8>().unwrap(), array.into_dyn());
}

#[test]
fn a_cast_counts_what_it_loses() {
    let tensor = Tensor::from_vec(vec![300.0_f64, 0.25, 7.0], &[3]).unwrap();
    let (bytes, report) = tensor.cast_with(DType::Uint8, Scaling::Clamp).unwrap();
    assert_eq!(*bytes.view::<u8>().unwrap(), array![255, 0, 7].into_dyn());
    assert_eq!((report.clipped, report.fractions), (1, 1));
}

#[test]
fn an_imaginary_part_is_not_dropped() {
    let complex = Tensor::from_vec(vec![num_complex::Complex::new(1.0_f32, 2.0)], &[1]);
    let error = complex.unwrap().cast(DType::Float32).unwrap_err();
    assert!(error.to_string().contains("take the real part first"), "{error}");
}

#[test]
fn a_copy_that_does_not_fit_into_memory_is_an_error() {
    let (view, owner) = Source::from(ndarray::Array1::<u8>::zeros(1)).into_parts();
    // SAFETY: every element is the first one of the array, which the owner keeps.
    let source = unsafe {
        let wide = View::new(view.data(), DType::Uint8, [1 << 62, 4][..].into(), [0, 0][..].into());
        Source::new(wide, owner)
    };
    let tensor = Tensor::from(source);
    assert!(matches!(tensor.to_contiguous(), Err(Error::Memory(_))));
    assert!(matches!(tensor.cast(DType::Float64), Err(Error::Memory(_))));
}

#[test]
fn memory_that_a_function_writes_to_is_not_copied() {
    let tensor = Tensor::from_vec(vec![1_u8, 2], &[2]).unwrap();
    let shared = tensor.clone();
    let user = User::parameter("fill", "out");
    let writing = Claim::new(&[Wanted::of(tensor.description(), user, true)]);
    assert!(matches!(shared.to_contiguous(), Err(Error::Aliased(_))));
    assert!(matches!(shared.cast(DType::Uint16), Err(Error::Aliased(_))));
    drop(writing);
    assert!(shared.to_contiguous().is_ok());
}
