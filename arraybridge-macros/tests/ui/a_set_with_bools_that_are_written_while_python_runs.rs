use arraybridge_macros::memory_type;

#[memory_type(numpy, for T in (u8, bool))]
fn f<T: Element>(callback: &Bound<'_, PyAny>, out: ArrayViewMut1<'_, T>) {}

fn main() {}
