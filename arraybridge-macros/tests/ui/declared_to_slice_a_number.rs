use arraybridge_macros::memory_type;

#[memory_type(numpy, sliced(n, mask))]
fn f(n: usize) {
    let _ = n;
}

fn main() {}
