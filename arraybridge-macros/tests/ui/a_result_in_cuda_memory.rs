use arraybridge_macros::memory_type;

#[memory_type(cupy, returns = input, result = image)]
fn mixed(image: DeviceView<'_, f32>, mask: ArrayView2<'_, bool>) -> Array2<f32> {}

#[memory_type(cupy, returns = input, result = [n])]
fn of_no_array(n: usize, stream: &Stream) -> Result<DeviceArray<f32>> {}

#[memory_type(torch, returns = input, result = image)]
fn of_a_device(image: DeviceView<'_, f32>, device: Device) -> DeviceArray<f32> {}

fn main() {}
