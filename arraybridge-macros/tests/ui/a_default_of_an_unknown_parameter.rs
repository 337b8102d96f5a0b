use arraybridge_macros::memory_type;

#[memory_type(numpy, defaults(sigme = 1.0))]
fn f(sigma: f32) {
    let _ = sigma;
}

fn main() {}
