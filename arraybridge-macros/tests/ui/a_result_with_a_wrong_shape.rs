use arraybridge_macros::memory_type;

#[memory_type(numpy, returns = input, result = height * 2)]
fn number(image: ArrayView2<'_, f32>) -> Array2<f32> {}

#[memory_type(numpy, returns = input, result = ([3], "image"))]
fn text(image: ArrayView2<'_, f32>) -> (Array1<f32>, Array1<f32>) {}

#[memory_type(numpy, returns = input, result = mask)]
fn unknown(image: ArrayView2<'_, f32>, sigma: f32) -> Array2<f32> {}

#[memory_type(numpy, returns = input, result = sigma)]
fn not_an_array(image: ArrayView2<'_, f32>, sigma: f32) -> Array2<f32> {}

#[memory_type(numpy, returns = input, shape(image = [n, sigma], mask = [n]), result = [n])]
fn twice(image: ArrayView2<'_, f32>, mask: ArrayView1<'_, bool>, sigma: f32) -> Array1<f32> {}

#[memory_type(numpy, returns = input, shape(image = [n, rest @ ..]), result = [n])]
fn rest(image: ArrayViewD<'_, f32>) -> Array1<f32> {}

fn main() {}
