use arraybridge_macros::memory_type;

#[memory_type(numpy, returns = input, result = [3])]
fn list(image: ArrayView2<'_, f32>) -> Vec<Array1<f32>> {}

#[memory_type(numpy, returns = input, result = ([3], image))]
fn one(image: ArrayView2<'_, f32>) -> Array1<f32> {}

#[memory_type(numpy, returns = input, result = [3])]
fn nothing(image: ArrayView2<'_, f32>) {}

#[memory_type(numpy, returns = input, result = ([3], image))]
fn axes(image: ArrayView2<'_, f32>) -> Result<(Array2<f32>, Array3<u8>), Error> {}

#[memory_type(numpy, result = image)]
fn framework(image: ArrayView2<'_, f32>) -> Array2<f32> {}

#[memory_type(numpy, returns = input, result = image)]
fn written(image: ArrayView2<'_, f32>, out: ArrayViewMut2<'_, f32>) {}

#[memory_type(numpy, returns = input, result = out)]
fn returned(mut out: ArrayViewMut2<'_, f32>) -> Array2<f32> {}

fn main() {}
