use arraybridge_macros::memory_type;

#[memory_type(numpy, join(sum))]
fn f(image: ArrayView2<'_, f32>) -> f32 {
    image.sum()
}

#[memory_type(numpy, split_axis = 0, join(maximum))]
fn g(image: ArrayView2<'_, f32>) -> f32 {
    image.sum()
}

fn main() {}
