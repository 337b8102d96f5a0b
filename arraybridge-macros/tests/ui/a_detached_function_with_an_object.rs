use arraybridge_macros::memory_type;

struct Bound<T>(T);

#[memory_type(torch, detach)]
fn f(x: Bound<u8>) {
    let _ = x.0;
}

fn main() {}
