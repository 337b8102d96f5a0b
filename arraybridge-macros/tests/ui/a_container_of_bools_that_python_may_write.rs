use arraybridge_macros::memory_type;

#[memory_type(numpy)]
fn f(masks: Vec<ArrayViewMut1<'_, bool>>, callback: &Bound<'_, PyAny>) {}

#[memory_type(numpy)]
fn borrowed(masks: Vec<ArrayView1<'_, bool>>) -> Vec<ArrayView1<'_, bool>> {
    masks
}

fn main() {}
