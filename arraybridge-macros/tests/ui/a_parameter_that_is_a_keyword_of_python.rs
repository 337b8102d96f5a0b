use arraybridge_macros::memory_type;

#[memory_type(numpy)]
fn f(lambda: f32) {
    let _ = lambda;
}

fn main() {}
