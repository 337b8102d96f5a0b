use arraybridge_macros::memory_type;

#[memory_type(numpy)]
fn f(#[cfg(any())] sigma: f32) {}

fn main() {}
