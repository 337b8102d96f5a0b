use arraybridge_macros::memory_type;

#[memory_type(numpy, on_oom(clear, give_up))]
fn f() {}

fn main() {}
