use arraybridge_macros::memory_type;

#[memory_type(numpy, return = input)]
fn f() {}

fn main() {}
