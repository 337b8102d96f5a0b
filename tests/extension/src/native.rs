//! Functions that are operators of compiled programs.

use std::time::Duration;

use arraybridge_runtime::prelude::*;

/// An image times a number.
#[memory_type(numpy, returns = input, cast, defaults(by = 2.0), result = image)]
fn times(image: ArrayViewD<'_, f32>, by: f32) -> ArrayD<f32> {
    image.to_owned() * by
}

/// Other element types are cast as they are outside of a program: rounded, and clamped to the range.
#[memory_type(numpy, returns = input, cast, result = image)]
fn bytes(image: ArrayViewD<'_, u8>) -> ArrayD<u8> {
    image.to_owned()
}

/// The same without a default.
#[memory_type(numpy, returns = input, result = image)]
fn scaled_natively(image: ArrayView2<'_, f32>, by: f32) -> Array2<f32> {
    times(image.into_dyn(), by).into_dimensionality().expect("it has the axes of the image")
}

#[memory_type(numpy, returns = input, result = image)]
fn widened(image: ArrayView2<'_, f32>) -> Array2<i64> {
    image.mapv(|pixel| pixel as i64)
}

/// The parts above a threshold, numbered, and the size of each of the first ones.
#[memory_type(
    numpy, returns = input, defaults(most = 4),
    shape(image = [height, width]), result = ([height, width], [most])
)]
fn counted(
    image: ArrayView2<'_, f32>,
    threshold: f64,
    most: usize,
) -> Result<(Array2<i32>, Array1<u16>), Error> {
    let (mut labels, mut sizes) = (Array2::zeros(image.raw_dim()), Array1::zeros(most));
    let mut found = 0_usize;
    for (row, mut labels) in image.rows().into_iter().zip(labels.rows_mut()) {
        let mut is_inside = false;
        for (pixel, label) in row.iter().zip(&mut labels) {
            let is_part = f64::from(*pixel) > threshold;
            if is_part {
                found += usize::from(!is_inside);
                let size = found.checked_sub(1).and_then(|at| sizes.get_mut(at));
                let size = size.ok_or_else(|| Error::Value(format!("more than {most} parts")))?;
                (*label, *size) = (found as i32, *size + 1);
            }
            is_inside = is_part;
        }
    }
    Ok((labels, sizes))
}

/// The sum of two arrays, row by row, with a length that is computed.
#[memory_type(
    numpy, returns = input,
    shape(a = [rows, _columns], b = [_, more]), result = [(rows * more).max(1) - 1]
)]
fn joined(a: ArrayView2<'_, i16>, b: ArrayView2<'_, i16>) -> Array1<i16> {
    let all = a.nrows() * b.ncols();
    Array1::from_elem(all.max(1) - 1, a.sum() - b.sum())
}

/// The sum of three colours.
#[memory_type(numpy, returns = input, shape(image = [rows, 3]), result = [rows])]
fn grey(image: ArrayView2<'_, f32>) -> Array1<f32> {
    image.rows().into_iter().map(|row| row.sum()).collect()
}

/// Numbers of all types, as they arrive.
#[memory_type(numpy, returns = input, result = [usize::from(flag) + 8])]
#[allow(clippy::too_many_arguments, reason = "there are so many types")]
fn numbers(
    like: ArrayView1<'_, f64>,
    flag: bool,
    small: u8,
    wide: u64,
    index: usize,
    negative: i8,
    low: i64,
    offset: isize,
    single: f32,
    double: Option<f64>,
) -> Array1<f64> {
    let first = f64::from(u8::from(flag)) + like.sum();
    let mut all = vec![first, f64::from(small), wide as f64, index as f64, f64::from(negative)];
    all.extend([low as f64, offset as f64, f64::from(single)]);
    all.extend(flag.then(|| double.unwrap_or(-1.0)));
    Array1::from_vec(all)
}

macro_rules! echoed {
    ($($name:ident: $element:ty),*) => {$(
        #[memory_type(numpy, returns = input, result = array)]
        fn $name(array: ArrayViewD<'_, $element>) -> ArrayD<$element> {
            array.to_owned()
        }
    )*};
}

echoed! {
    echoed_bool: bool, echoed_uint8: u8, echoed_uint16: u16, echoed_uint32: u32, echoed_uint64: u64,
    echoed_int8: i8, echoed_int16: i16, echoed_int32: i32, echoed_int64: i64, echoed_float16: f16,
    echoed_bfloat16: bf16, echoed_float32: f32, echoed_float64: f64, echoed_complex64: Complex<f32>,
    echoed_complex128: Complex<f64>
}

/// Arrays of bools, and those without axes.
#[memory_type(numpy, returns = input, result = (mask, []))]
fn negated(mask: ArrayViewD<'_, bool>) -> (ArrayD<bool>, Array0<u8>) {
    let count = mask.iter().filter(|is_set| **is_set).count();
    (mask.mapv(|is_set| !is_set), Array0::from_elem((), count as u8))
}

/// Fails as a number says.
#[memory_type(numpy, returns = input, stop_gradient, result = image)]
fn failing(image: ArrayView1<'_, f32>, how: u8) -> Result<Array1<f32>, Error> {
    match how {
        0 => Err(Error::Value(format!("the sum is {} \u{3c3}", image.sum()))),
        1 => panic!("the sum is {}", image.sum()),
        2 => Ok(Array1::zeros(image.len() + 1)),
        _ => {
            std::thread::sleep(Duration::from_millis(how.into()));
            Ok(image.to_owned())
        }
    }
}

/// A function with a derivative in Rust.
#[memory_type(numpy, returns = input, defaults(by = 1.0), result = image)]
fn squared(image: ArrayViewD<'_, f32>, by: f32) -> ArrayD<f32> {
    &image * &image * by
}

#[memory_type(numpy, returns = input, defaults(by = 1.0), result = image)]
fn squared_backward(
    image: ArrayViewD<'_, f32>,
    gradient: ArrayViewD<'_, f32>,
    by: f32,
) -> ArrayD<f32> {
    &image * &gradient * (2.0 * by)
}

/// Adds to an array, which is the result.
#[memory_type(numpy, returns = input, cast, defaults(by = 1.0), result = out)]
fn added_into(
    image: ArrayViewD<'_, f32>,
    mut out: ArrayViewMutD<'_, f32>,
    by: f32,
) -> Result<(), Error> {
    if image.shape() != out.shape() {
        return Err(Error::Value(format!("{:?} is not {:?}", image.shape(), out.shape())));
    }
    assert!(by != 13.0, "no factor of {by}");
    out.zip_mut_with(&image, |to, from| *to += by * from);
    Ok(())
}

/// Writes to two arrays, which are the results in another order.
#[memory_type(numpy, returns = input, result = (high, low))]
fn bounded(
    mut low: ArrayViewMut1<'_, i32>,
    image: ArrayView1<'_, i32>,
    mut high: ArrayViewMut1<'_, i32>,
) {
    for ((low, high), pixel) in low.iter_mut().zip(&mut high).zip(image) {
        (*low, *high) = ((*low).min(*pixel), (*high).max(*pixel));
    }
}

/// Writes to bools, and reads what is there before.
#[memory_type(numpy, returns = input, result = mask)]
fn inverted(mut mask: ArrayViewMutD<'_, bool>) {
    mask.mapv_inplace(|is_set| !is_set);
}
