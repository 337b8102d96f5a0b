use arraybridge_macros::memory_type;

#[memory_type(numpy, shape(image = [_], image = [_, _]))]
fn f(image: ArrayViewD<'_, f32>) {}

fn main() {}
