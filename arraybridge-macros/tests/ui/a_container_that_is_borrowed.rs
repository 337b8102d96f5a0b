use arraybridge_macros::memory_type;

#[memory_type(numpy)]
fn slice(images: &[ArrayView2<'_, f32>]) {}

#[memory_type(numpy)]
fn vector(images: Option<&Vec<Tensor>>) {}

fn main() {}
