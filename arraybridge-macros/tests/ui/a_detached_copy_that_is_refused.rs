use arraybridge_macros::memory_type;

#[memory_type(numpy, detach = copy, no_copy(image))]
fn f(image: ArrayView1<'_, f32>) {}

fn main() {}
