use arraybridge_macros::memory_type;

#[memory_type(numpy, returns = input, slice_by_slice, dtype_conversion = preserve, result = image)]
fn slices(image: ArrayView2<'_, f32>) -> Array2<f32> {}

#[memory_type(numpy, returns = input, for T in (u8, f32), result = image)]
fn generic<T: Element>(image: ArrayView2<'_, T>) -> Array2<T> {}

fn main() {}
