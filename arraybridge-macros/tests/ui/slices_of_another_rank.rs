use arraybridge_macros::memory_type;

#[memory_type(numpy, slice_by_slice)]
fn one(signal: ArrayView1<'_, f32>) {}

#[memory_type(numpy, slice_by_slice)]
fn three(stack: Option<ArrayView3<'_, f32>>) {}

#[memory_type(numpy, slice_by_slice, slice_axes(-3, -2, -1))]
fn two(image: ArrayView2<'_, f32>) {}

#[memory_type(numpy, slice_axes())]
fn none(image: ArrayViewD<'_, f32>) {}

fn main() {}
