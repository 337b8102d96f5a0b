use arraybridge_macros::memory_type;

struct Tensor;

#[memory_type(numpy, split_axis = -1)]
fn f(image: Tensor) {
    let _ = image;
}

fn main() {}
