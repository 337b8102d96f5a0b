use arraybridge_macros::memory_type;

#[memory_type(numpy, for T in (u8, f32))]
fn f(image: ArrayView2<'_, T>) {}

fn main() {}
