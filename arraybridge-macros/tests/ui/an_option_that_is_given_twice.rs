use arraybridge_macros::memory_type;

#[memory_type(numpy, returns = input, returns = torch)]
fn f() {}

fn main() {}
