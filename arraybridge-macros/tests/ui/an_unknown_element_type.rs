use arraybridge_macros::memory_type;

#[memory_type(numpy, for T in (u8, usize, String, Complex<u8>))]
fn f<T: Element>(image: ArrayView2<'_, T>) {}

fn main() {}
