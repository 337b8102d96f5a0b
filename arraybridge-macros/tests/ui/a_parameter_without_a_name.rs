use arraybridge_macros::memory_type;

#[memory_type(numpy)]
fn f((a, b): (u8, u8)) -> u8 {
    a + b
}

fn main() {}
