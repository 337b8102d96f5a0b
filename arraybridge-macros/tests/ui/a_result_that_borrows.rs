use arraybridge_macros::memory_type;

#[memory_type(numpy)]
fn one(x: ArrayView2<'_, f32>) -> Option<ArrayView2<'_, f32>> {
    Some(x)
}

#[memory_type(numpy)]
fn several(x: &Tensor) -> Result<(TensorView<'_, f32>, &Array1<f32>, f64), Error> {
    loop {}
}

fn main() {}
