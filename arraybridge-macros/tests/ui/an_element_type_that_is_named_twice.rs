use arraybridge_macros::memory_type;

#[memory_type(numpy, for T in (u8, f32, half::f16, u8, f16))]
fn f<T: Element>(image: ArrayView2<'_, T>) {}

fn main() {}
