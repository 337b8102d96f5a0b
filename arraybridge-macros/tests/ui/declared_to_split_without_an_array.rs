use arraybridge_macros::memory_type;

#[memory_type(numpy, split_axis = 0)]
fn f() {}

fn main() {}
