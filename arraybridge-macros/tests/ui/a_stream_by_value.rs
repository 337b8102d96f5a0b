use arraybridge_macros::memory_type;

struct Stream;

#[memory_type(cupy)]
fn f(_stream: Stream) {}

fn main() {}
