use arraybridge_macros::memory_type;

#[memory_type(numpy, for T in ())]
fn f<T: Element>(image: ArrayView2<'_, T>) {}

fn main() {}
