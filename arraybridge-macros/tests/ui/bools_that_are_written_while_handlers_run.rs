use arraybridge_macros::memory_type;

#[memory_type(numpy)]
fn f(mask: ArrayViewMut1<'_, bool>, interrupt: &Interrupt) {}

fn main() {}
