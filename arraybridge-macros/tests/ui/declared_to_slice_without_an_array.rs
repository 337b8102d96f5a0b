use arraybridge_macros::memory_type;

#[memory_type(numpy, slice_by_slice)]
fn f() {}

fn main() {}
