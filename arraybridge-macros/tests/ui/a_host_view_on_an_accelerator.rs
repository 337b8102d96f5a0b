use arraybridge_macros::memory_type;

struct ArrayView2<'a, T>(&'a T);

#[memory_type(cupy)]
fn f(image: ArrayView2<'_, f32>) {
    let _ = image.0;
}

fn main() {}
