use arraybridge_macros::memory_methods;

struct Filter;

#[memory_methods]
#[pymethods]
impl Filter {
    #[memory_type(numpy, returns = input, result = image)]
    fn apply(&self, image: ArrayView2<'_, f32>) -> Array2<f32> {}
}

fn main() {}
