use arraybridge_macros::memory_type;

struct Bound;

#[memory_type(numpy)]
fn f(object: Option<&Bound>) {
    let _ = object;
}

fn main() {}
