use arraybridge_macros::memory_type;

#[memory_type(numpy)]
fn pair(pair: (ArrayView2<'_, f32>, f64)) {}

#[memory_type(numpy)]
fn owned(images: (ArrayView1<'_, f32>, Vec<Array2<f32>>)) {}

fn main() {}
