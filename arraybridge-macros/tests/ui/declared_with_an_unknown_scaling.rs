use arraybridge_macros::memory_type;

#[memory_type(numpy, scaling = strech)]
fn f() {}

fn main() {}
