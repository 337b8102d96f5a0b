use arraybridge_macros::memory_type;

#[memory_type(numpy)]
async fn f() {}

fn main() {}
