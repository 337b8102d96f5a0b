use arraybridge_macros::memory_type;

#[memory_type(numpy)]
struct S;

fn main() {}
