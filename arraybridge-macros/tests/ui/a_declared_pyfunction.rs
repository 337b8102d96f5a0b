use arraybridge_macros::memory_type;

#[memory_type(numpy)]
#[pyfunction]
#[pyo3(signature = (x, y = 1.0))]
fn f(x: ArrayView2<'_, f32>, y: f64) {}

fn main() {}
