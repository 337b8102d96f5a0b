use arraybridge_macros::memory_type;

#[memory_type]
fn f() {}

fn main() {}
