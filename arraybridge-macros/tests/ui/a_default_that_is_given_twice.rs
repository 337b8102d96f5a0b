use arraybridge_macros::memory_type;

#[memory_type(numpy, defaults(sigma = 1.0, sigma = 2.0))]
fn f(sigma: f32) {
    let _ = sigma;
}

fn main() {}
