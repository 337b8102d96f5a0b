use arraybridge_macros::memory_type;

#[memory_type(numpy)]
unsafe fn f() {}

fn main() {}
