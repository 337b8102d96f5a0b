use arraybridge_macros::memory_type;

#[memory_type(numpy, detach = copy)]
fn f(out: ArrayViewMut1<'_, f32>) {}

fn main() {}
