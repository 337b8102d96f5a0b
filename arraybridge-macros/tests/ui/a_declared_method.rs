use arraybridge_macros::memory_type;

struct S;

impl S {
    #[memory_type(numpy)]
    fn f(&self) {}

    #[memory_type(numpy)]
    #[staticmethod]
    fn g() {}
}

fn main() {}
