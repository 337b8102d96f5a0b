use arraybridge_macros::memory_type;

struct Stream;

#[memory_type(numpy)]
fn f(_stream: &Stream) {}

fn main() {}
