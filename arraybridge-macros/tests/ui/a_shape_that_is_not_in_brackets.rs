use arraybridge_macros::memory_type;

#[memory_type(numpy, shape(image = (_, 3), mask = [3] | 4))]
fn f(image: ArrayViewD<'_, f32>, mask: ArrayView1<'_, bool>) {}

fn main() {}
