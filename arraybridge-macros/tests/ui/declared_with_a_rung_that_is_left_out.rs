use arraybridge_macros::memory_type;

struct Tensor;

#[memory_type(numpy, on_oom(clear), split_axis = 0)]
fn f(image: Tensor) {
    let _ = image;
}

fn main() {}
