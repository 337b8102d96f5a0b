use arraybridge_macros::memory_type;

#[memory_type(cupi)]
fn f(x: f32) {
    let _ = x;
}

fn main() {}
