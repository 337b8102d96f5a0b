use arraybridge_macros::memory_type;

#[memory_type(numpy)]
fn pass() {}

fn main() {}
