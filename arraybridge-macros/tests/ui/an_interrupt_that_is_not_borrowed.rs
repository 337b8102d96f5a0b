use arraybridge_macros::memory_type;

#[memory_type(numpy)]
fn f(interrupt: Interrupt) {}

fn main() {}
