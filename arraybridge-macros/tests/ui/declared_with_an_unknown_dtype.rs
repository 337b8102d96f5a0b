use arraybridge_macros::memory_type;

#[memory_type(numpy, dtype_conversion = uint61)]
fn f() {}

fn main() {}
