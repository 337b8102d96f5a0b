use arraybridge_macros::memory_type;

#[memory_type(numpy)]
fn f<T>(x: T) {
    let _ = x;
}

fn main() {}
