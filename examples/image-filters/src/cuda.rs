//! Sobel's operator as a CUDA kernel, which is compiled for each device at its first use.

use std::sync::{Mutex, PoisonError};

use arraybridge_runtime::prelude::*;
use cudarc::driver::{CudaFunction, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::{self, Ptx};
use pyo3::prelude::*;

/// The strength of the edges of an image, by Sobel's operator, on a CUDA device.
///
/// The image is float32; the result is of its framework.
#[memory_type(cupy, returns = input)]
fn sobel_cuda(image: DeviceView<'_, f32>, stream: &Stream) -> Result<DeviceArray<f32>> {
    let [height, width] = image.dim()?.map(|n| n as i64);
    // SAFETY: the kernel writes every element.
    let mut result = unsafe { DeviceArray::uninit(image.shape(), stream) }?;
    if image.is_empty() {
        return Ok(result);
    }
    let kernel = kernel(stream)?;
    let (down, across) = (image.strides()[0] as i64, image.strides()[1] as i64);
    let (columns, rows) = (32, 8);
    let config = LaunchConfig {
        grid_dim: (
            (width as u64).div_ceil(columns) as u32,
            (height as u64).div_ceil(rows).min(65535) as u32,
            1,
        ),
        block_dim: (columns as u32, rows as u32, 1),
        shared_mem_bytes: 0,
    };
    let mut launch = stream.launch_builder(&kernel);
    launch.arg(&image).arg(&mut result).arg(&height).arg(&width).arg(&down).arg(&across);
    // SAFETY: the arguments match the kernel's parameters. It reads elements of the image, whose
    // strides it is given, and writes elements of the result, within height and width.
    unsafe { launch.launch(config) }?;
    Ok(result)
}

/// The kernel on a stream's device.
fn kernel(stream: &Stream) -> Result<CudaFunction> {
    static KERNELS: Mutex<Vec<(usize, CudaFunction)>> = Mutex::new(Vec::new());
    let lock = || KERNELS.lock().unwrap_or_else(PoisonError::into_inner);
    let known = |kernels: &[(usize, CudaFunction)]| {
        kernels.iter().find(|(index, _)| *index == stream.index()).map(|(_, k)| k.clone())
    };
    if let Some(kernel) = known(&lock()) {
        return Ok(kernel);
    }
    // The lock is not held here, since Python runs, and may switch to a thread that waits for it.
    let kernel = stream.context().load_module(compile()?)?.load_function("sobel")?;
    lock().push((stream.index(), kernel.clone()));
    Ok(kernel)
}

fn compile() -> Result<Ptx> {
    // SAFETY: this only tries to open the library.
    let present = || unsafe { nvrtc::sys::is_culib_present() };
    if !present() {
        load_nvrtc_of_pip();
    }
    if !present() {
        return Err(Error::Cuda(
            "the CUDA compiler (NVRTC of CUDA 12) was not found; run `pip install \
             nvidia-cuda-nvrtc-cu12`, or add the CUDA toolkit's libraries to LD_LIBRARY_PATH"
                .into(),
        ));
    }
    nvrtc::compile_ptx(include_str!("sobel.cu"))
        .map_err(|error| Error::Cuda(format!("NVRTC cannot compile sobel.cu: {error}")))
}

/// Loads NVRTC from the folder where pip puts it, which loaders do not search.
fn load_nvrtc_of_pip() {
    let load = |py: Python<'_>| -> PyResult<()> {
        let metadata = py.import("importlib.metadata")?;
        let files = metadata.call_method1("files", ("nvidia-cuda-nvrtc-cu12",))?;
        for file in files.try_iter()? {
            let path = file?.call_method0("locate")?.str()?;
            if path.to_str()?.ends_with("/libnvrtc.so.12") {
                py.import("ctypes")?.call_method1("CDLL", (path,))?;
            }
        }
        Ok(())
    };
    // The caller reports a library that is still missing.
    let _ = Python::attach(load);
}
