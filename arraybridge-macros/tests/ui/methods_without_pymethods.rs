use arraybridge_macros::memory_methods;

struct S;

#[memory_methods]
impl S {
    fn f(&self) {}
}

#[memory_methods]
struct T;

fn main() {}
