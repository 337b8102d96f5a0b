use arraybridge_macros::memory_type;

#[memory_type(numpy)]
fn f(
    a: &Array2<f32>,
    b: Array3<u8>,
    c: &mut ndarray::ArrayD<f64>,
    d: &[f32],
    e: &mut [u8],
    f: Option<&Array<f32, Ix1>>,
) {
}

fn main() {}
