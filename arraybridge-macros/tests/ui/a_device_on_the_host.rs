use arraybridge_macros::memory_type;

struct Device;

#[memory_type(numpy)]
fn f(_device: Device) {}

fn main() {}
