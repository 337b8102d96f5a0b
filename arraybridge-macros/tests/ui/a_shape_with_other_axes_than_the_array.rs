use arraybridge_macros::memory_type;

#[memory_type(numpy, shape(image = [_, _, 3], mask = [_, .., _], out = [.., _, _, _]))]
fn f(image: ArrayView2<'_, f32>, mask: ArrayView2<'_, bool>, out: ArrayViewMut2<'_, f32>) {}

fn main() {}
