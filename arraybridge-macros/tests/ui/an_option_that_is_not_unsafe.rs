use arraybridge_macros::memory_type;

#[memory_type(numpy, unsafe(cast))]
fn f(image: ArrayView1<'_, f32>) {}

fn main() {}
