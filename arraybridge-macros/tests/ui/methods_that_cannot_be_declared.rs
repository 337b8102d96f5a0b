use arraybridge_macros::memory_methods;

struct S;

#[memory_methods]
#[pymethods]
impl S {
    #[memory_type(numpy)]
    fn without_an_instance(image: ArrayView2<'_, f32>) {}

    #[memory_type(numpy)]
    fn consumed(self) {}

    #[staticmethod]
    #[memory_type(numpy)]
    fn with_an_instance(&self) {}

    #[classmethod]
    #[memory_type(numpy)]
    fn without_a_class() {}

    #[new]
    #[memory_type(numpy)]
    fn new(image: ArrayView2<'_, f32>) -> Self {
        S
    }

    #[memory_type(numpy, detach)]
    fn detached(&self, image: ArrayView2<'_, f32>) {}
}

fn main() {}
