use arraybridge_macros::memory_type;

#[memory_type(numpy, defaults(a = 1))]
fn f(a: u8, b: u8) -> u8 {
    a + b
}

fn main() {}
