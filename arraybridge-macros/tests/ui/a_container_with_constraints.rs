use arraybridge_macros::memory_type;

#[memory_type(numpy, shape(images = [_, 3]), contiguous(images))]
fn f(images: Vec<ArrayView2<'_, f32>>) {}

fn main() {}
