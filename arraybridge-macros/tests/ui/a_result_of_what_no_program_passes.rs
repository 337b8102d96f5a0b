use arraybridge_macros::memory_type;

#[memory_type(numpy, returns = input, result = image)]
fn f(
    image: ArrayView2<'_, f32>,
    out: ArrayViewMut2<'_, f32>,
    tensor: &Tensor,
    many: Vec<ArrayView2<'_, f32>>,
    mode: &str,
    callback: Bound<'_, PyAny>,
    interrupt: &Interrupt,
    mask: Option<ArrayView2<'_, bool>>,
    sigma: Option<f32>,
) -> Array2<f32> {
}

fn main() {}
