use arraybridge_macros::memory_type;

#[memory_type(numpy, detach = share)]
fn f(image: ArrayView1<'_, f32>) {}

fn main() {}
