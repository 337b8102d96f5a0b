use arraybridge_macros::memory_type;

#[memory_type(numpy, split_axis = 0)]
fn f(image: ArrayView2<'_, f32>, out: ArrayViewMut2<'_, f32>) {}

fn main() {}
