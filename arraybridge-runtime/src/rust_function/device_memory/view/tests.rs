use dlpark::ffi::{DLDevice, DLDeviceType};

use super::*;
use crate::framework::spec::DType;

fn view(dtype: DType, data: usize, shape: &[usize], strides: &[isize]) -> View {
    let device = DLDevice { device_type: DLDeviceType::CUDA, device_id: 1 };
    // SAFETY: there is no memory, and nobody looks for it.
    unsafe { View::new(data as *mut u8, dtype, shape.into(), strides.into()) }.on(device)
}

fn described(shape: &[usize], strides: &[isize]) -> DeviceView<'static, f32> {
    DeviceView::new(Layout::of::<f32>(&view(DType::Float32, 64, shape, strides)).unwrap())
}

#[test]
fn strides_are_in_elements() {
    let view = described(&[3, 4], &[-32, 8]);
    assert_eq!((view.shape(), view.strides()), (&[3, 4][..], &[-8, 2][..]));
    assert_eq!((view.pointer(), view.device(), view.len(), view.ndim()), (64, 1, 12, 2));
    assert_eq!(format!("{view:?}"), "DeviceView float32[3, 4] on cuda:1");
}

#[test]
fn only_row_major_memory_is_contiguous() {
    assert_eq!(described(&[3, 4], &[16, 4]).contiguous().unwrap(), 64);
    assert!(described(&[0, 4], &[3, 5]).is_contiguous());
    let error = described(&[3, 4], &[4, 12]).contiguous().unwrap_err().to_string();
    assert!(error.contains("[3, 4]") && error.contains("[1, 3]"), "{error}");
}

#[test]
fn another_rank_is_an_error() {
    assert_eq!(described(&[3, 4], &[16, 4]).dim::<2>().unwrap(), [3, 4]);
    assert!(described(&[3], &[4]).dim::<2>().is_err());
}

#[test]
fn elements_that_a_kernel_cannot_read_are_refused() {
    assert!(Layout::of::<f32>(&view(DType::Float64, 64, &[2], &[8])).is_err());
    assert!(Layout::of::<f32>(&view(DType::Float32, 66, &[2], &[4])).is_err());
    assert!(Layout::of::<f32>(&view(DType::Float32, 64, &[2], &[6])).is_err());
    assert!(Layout::of::<f32>(&view(DType::Float32, 0, &[0], &[6])).is_ok());
}
