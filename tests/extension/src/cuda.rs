//! Functions that work in CUDA memory, for tests/python/device/test_gpu_functions.py and tests/simulated_cuda.

use arraybridge_runtime::cudarc::driver::result;
use arraybridge_runtime::cudarc::driver::sys::{self, CUpointer_attribute};
use arraybridge_runtime::prelude::*;
use pyo3::prelude::*;

/// A copy of the elements.
#[memory_type(cupy, returns = input)]
fn device_copy(image: DeviceView<'_, f32>, stream: &Stream) -> Result<DeviceArray<f32>> {
    let from = image.contiguous()?;
    let mut copy = DeviceArray::zeros(image.shape(), stream)?;
    let bytes = 4 * image.len();
    if bytes > 0 {
        expect_on_device(from, stream)?;
        let memory = stream.context().clone();
        memory.bind_to_thread()?;
        let to = pointer(&mut copy, stream);
        // SAFETY: both have this many bytes on the device of the stream, and `copy` is new.
        unsafe { result::memcpy_dtod_async(to, from, bytes, stream.cu_stream()) }?;
    }
    Ok(copy)
}

/// Refuses memory of another device than the stream's.
fn expect_on_device(address: u64, stream: &Stream) -> Result<()> {
    let (mut device, attribute) =
        (-1_i32, CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
    // SAFETY: the attribute has 32 bits, and any address may be asked about.
    unsafe { sys::cuPointerGetAttribute((&raw mut device).cast(), attribute, address) }.result()?;
    match device as usize == stream.index() {
        true => Ok(()),
        false => Err(Error::Value(format!("memory of device {device} on {}", stream.device()))),
    }
}

/// The elements once more, as a tensor of no framework.
#[memory_type(cupy)]
fn device_tensor<'py>(
    py: Python<'py>,
    image: DeviceView<'_, f32>,
    stream: &Stream,
) -> Result<Bound<'py, PyAny>> {
    Ok(Tensor::from(device_copy(image, stream)?).into_pyobject(py)?)
}

/// The same, exported by DLPack and imported again on the way.
#[memory_type(cupy)]
fn device_exchanged<'py>(
    py: Python<'py>,
    image: DeviceView<'_, f32>,
    stream: &Stream,
) -> Result<Bound<'py, PyAny>> {
    let exported = Tensor::from(device_copy(image, stream)?).into_dlpack()?;
    // SAFETY: the memory is new, nobody else has it, and a tensor exports what is ordered.
    Ok(unsafe { Tensor::from_dlpack(exported) }?.into_pyobject(py)?)
}

fn pointer<T: Element>(array: &mut DeviceArray<T>, stream: &Stream) -> u64 {
    use arraybridge_runtime::cudarc::driver::DevicePtrMut;
    array.slice_mut().device_ptr_mut(stream).0
}

/// Shape, strides, address, device of the view, device and stream of the call.
#[memory_type(cupy)]
fn device_facts(
    image: DeviceView<'_, f32>,
    device: Device,
    stream: &Stream,
) -> (Vec<usize>, Vec<isize>, u64, usize, String, usize) {
    let (shape, strides) = (image.shape().to_vec(), image.strides().to_vec());
    let handle = stream.handle();
    (shape, strides, image.pointer(), image.device(), device.to_string(), handle)
}

#[memory_type(torch, cast)]
fn device_cast(image: DeviceView<'_, f32>) -> Vec<usize> {
    image.shape().to_vec()
}

/// Copies into `out`.
#[memory_type(cupy)]
fn device_copy_into(
    image: DeviceView<'_, f32>,
    out: DeviceViewMut<'_, f32>,
    stream: &Stream,
) -> Result<()> {
    let (from, to) = (image.contiguous()?, out.contiguous()?);
    if image.shape() != out.shape() {
        return Err(Error::Value("the shapes differ".into()));
    }
    // SAFETY: both have this many bytes on the device of the stream, and the call has checked that
    // they do not overlap.
    unsafe { result::memcpy_dtod_async(to, from, 4 * image.len(), stream.cu_stream()) }?;
    Ok(())
}

#[memory_type(cupy)]
fn device_ramp(n: usize, stream: &Stream) -> Result<DeviceArray<f16>> {
    let ramp: Vec<f16> = (0..n).map(|i| f16::from_f32(i as f32)).collect();
    DeviceArray::from_slice(&ramp, &[n], stream)
}

/// `n` bytes of zeros.
#[memory_type(cupy)]
fn device_bytes(n: usize, stream: &Stream) -> Result<DeviceArray<u8>> {
    DeviceArray::zeros(&[n], stream)
}

#[memory_type(cupy, returns = input, detach)]
fn device_zeros(image: DeviceView<'_, f32>, stream: &Stream) -> Result<DeviceArray<u8>> {
    DeviceArray::zeros(image.shape(), stream)
}

#[memory_type(cupy, returns = input)]
fn device_same(image: Tensor, _stream: &Stream) -> Tensor {
    image
}

#[memory_type(cupy)]
fn device_panics(_stream: &Stream) {
    panic!("on purpose");
}

#[memory_type(pyclesperanto)]
fn device_of_no_cuda(_stream: &Stream) {}

#[memory_type(cupy, device = "cuda:1")]
fn device_second(image: DeviceView<'_, f32>, device: Device) -> String {
    assert_eq!(device, Device::Accelerator(image.device()));
    device.to_string()
}

/// The device that a call with these arguments is on.
#[memory_type(torch)]
fn device_of(image: &Tensor, device: Device) -> String {
    let _ = image;
    device.to_string()
}

#[memory_type(jax, returns = input, result = image)]
fn device_copy_jax(image: DeviceView<'_, f32>, stream: &Stream) -> Result<DeviceArray<f32>> {
    device_copy(image, stream)
}

#[memory_type(torch, returns = input, result = image)]
fn device_copy_torch(image: DeviceView<'_, f32>, stream: &Stream) -> Result<DeviceArray<f32>> {
    device_copy(image, stream)
}

/// `n` bytes of one value, and a copy of the elements.
#[memory_type(cupy, returns = input, result = ([n], image))]
fn device_bytes_and_copy(
    image: DeviceView<'_, f32>,
    n: usize,
    value: u8,
    stream: &Stream,
) -> Result<(DeviceArray<u8>, DeviceArray<f32>)> {
    let mut bytes = DeviceArray::zeros(&[n], stream)?;
    if n > 0 {
        let to = pointer(&mut bytes, stream);
        // SAFETY: the array has this many bytes on the device of the stream.
        unsafe { result::memset_d8_async(to, value, n, stream.cu_stream()) }?;
    }
    Ok((bytes, device_copy(image, stream)?))
}

/// Copies into the beginning of `out`, also in a compiled program.
#[memory_type(torch, returns = input, result = out)]
fn device_write(
    stream: &Stream,
    image: DeviceView<'_, f32>,
    out: DeviceViewMut<'_, f32>,
) -> Result<()> {
    let (from, to) = (image.contiguous()?, out.contiguous()?);
    if image.len() > out.len() {
        return Err(Error::Value("there is no room".into()));
    }
    // SAFETY: both have as many bytes on the device of the stream, and do not overlap.
    unsafe { result::memcpy_dtod_async(to, from, 4 * image.len(), stream.cu_stream()) }?;
    Ok(())
}
