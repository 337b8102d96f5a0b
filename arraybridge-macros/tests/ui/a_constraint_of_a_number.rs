use arraybridge_macros::memory_type;

#[memory_type(numpy, shape(n = [_]), contiguous(m), no_copy(n))]
fn f(image: ArrayViewD<'_, f32>, n: u8) {}

fn main() {}
