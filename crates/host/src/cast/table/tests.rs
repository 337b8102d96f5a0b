use std::ptr;

use super::super::{Cast, CastError, CastReport, Scaling};
use super::{CastOutcome, CastTable, Job, own, package};
use crate::dtype::DType;
use crate::parallel::Threads;
use crate::walk::StridedArray;

/// The elements of two rows, every other one of five, in the other byte order.
const STORED: [u16; 10] = [256, 0, 513, 0, 7, 1, 2, 3, 4, 5];

fn array() -> StridedArray<'static> {
    let data = STORED.as_ptr().cast();
    StridedArray { data, shape: &[2, 3], strides: &[10, 4], dtype: DType::Uint16, swapped: true }
}

#[test]
fn the_package_casts_for_a_module_that_has_no_loops() {
    let mut out = [-1.0_f32; 6];
    let mut cast = |src: StridedArray<'_>| {
        // SAFETY: the array has six elements, and there is room for them.
        unsafe {
            let (scaling, threads) = (Scaling::Clamp, Threads::Several);
            let cast = Cast { dtype: DType::Float32, scaling, threads };
            package::cast_strided(out.as_mut_ptr().cast(), src, cast)
        }
    };
    assert_eq!(cast(array()), Err(CastError::NotImported));
    assert!(!package::is_joined());
    package::join(&own::OWN);
    assert!(package::is_joined());
    assert_eq!(cast(array()), Ok(CastReport::default()));
    let complex = StridedArray { dtype: DType::Complex64, ..array() };
    let [from, to] = [DType::Complex64, DType::Float32];
    assert_eq!(cast(complex), Err(CastError::Complex { from, to }));
    assert_eq!(out, [1.0, 258.0, 1792.0, 256.0, 768.0, 1280.0]);

    let floats = [300.0_f32, 0.5, -2.0];
    let src = StridedArray {
        data: floats.as_ptr().cast(),
        shape: &[3],
        strides: &[4],
        dtype: DType::Float32,
        swapped: false,
    };
    let mut bytes = [9_u8; 3];
    // SAFETY: the array has three elements, and there is room for them.
    let report = unsafe {
        let (scaling, threads) = (Scaling::Unit, Threads::AtMost(0));
        let cast = Cast { dtype: DType::Uint8, scaling, threads };
        package::cast_strided(bytes.as_mut_ptr(), src, cast)
    };
    assert_eq!(report, Ok(CastReport { clipped: 2, fractions: 0 }));
    assert_eq!(bytes, [255, 128, 0]);
    let wide = [1_u32 << 24, (1 << 24) + 1, u32::MAX];
    let src = StridedArray { data: wide.as_ptr().cast(), dtype: DType::Uint32, ..src };
    // SAFETY: the array has three elements.
    let rounded = unsafe { package::count_rounded(src, DType::Float32, Threads::ONE) };
    assert_eq!(rounded, Ok(2));
}

#[test]
fn a_panic_does_not_cross_into_another_module() {
    let CastTable { cast, .. } = own::OWN;
    let mut report = CastReport::default();
    let shape = [0_usize; 0];
    let job = Job {
        dst: ptr::null_mut(),
        data: ptr::null(),
        shape: shape.as_ptr(),
        strides: ptr::dangling(),
        ndim: 0,
        swap: 0,
        from: u8::MAX,
        to: 0,
        scaling: Scaling::Clamp,
        threads: 1,
    };
    // SAFETY: there is no such element type, so that nothing is read.
    assert!(matches!(unsafe { cast(&job, &mut report) }, CastOutcome::Panicked));
}
