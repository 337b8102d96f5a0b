use arraybridge_macros::memory_type;

#[memory_type(numpy, returns = pytorch)]
fn f() {}

fn main() {}
