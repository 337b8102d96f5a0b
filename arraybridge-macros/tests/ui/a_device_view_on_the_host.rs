use arraybridge_macros::memory_type;

struct DeviceView<'a, T>(&'a T);

#[memory_type(numpy)]
fn f(image: DeviceView<'_, f32>) {
    let _ = image.0;
}

fn main() {}
