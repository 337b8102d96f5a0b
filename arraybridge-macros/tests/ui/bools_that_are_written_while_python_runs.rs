use arraybridge_macros::memory_type;

#[memory_type(numpy)]
fn f(callback: &Bound<'_, PyAny>, out: Option<ArrayViewMut1<'_, bool>>) {}

fn main() {}
