use arraybridge_macros::memory_type;

#[memory_type(numpy, for T in (u8, f32), for U in (u8, u16))]
fn f<T: Element, U: Element>(image: ArrayView2<'_, T>, labels: ArrayView2<'_, U>) {}

fn main() {}
