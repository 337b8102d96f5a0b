use arraybridge_macros::memory_type;

#[memory_type(numpy, name = "two words")]
fn f() {}

fn main() {}
