use arraybridge_macros::memory_type;

#[memory_type(torch, unsafe(detach))]
fn f(x: &Bound<'_, PyAny>) {}

fn main() {}
