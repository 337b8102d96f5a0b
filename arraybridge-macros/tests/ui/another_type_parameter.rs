use arraybridge_macros::memory_type;

#[memory_type(numpy, for T in (u8, f32))]
fn f<T: Element, const N: usize, U: Element>(image: ArrayView2<'_, T>, labels: ArrayView2<'_, U>) {}

fn main() {}
