use arraybridge_macros::memory_type;

#[memory_type(numpy, contiguous(image), no_copy(image, out))]
fn f(image: &Tensor, out: ArrayViewMutD<'_, f32>) {}

fn main() {}
