use arraybridge_macros::memory_type;

#[memory_type(numpy)]
fn f(out: Option<ArrayViewMut1<'_, bool>>, callback: &Bound<'_, PyAny>) {}

fn main() {}
