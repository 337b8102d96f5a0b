//! Slices of cudarc become tensors, without Python. The driver is a fake, which reports what is in no order: nothing here
//! says how a device behaves.

use std::env;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::process::Command;

use arraybridge_tensor::cudarc::driver::CudaContext;
use arraybridge_tensor::prelude::*;

#[test]
fn a_slice_becomes_a_tensor_of_its_memory() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let built = Command::new("cc")
        .args(["-std=gnu11", "-O1", "-shared", "-fPIC", "-lpthread"])
        .arg(repository.join("tests/fakes/fake_cuda/fake_cuda.c"))
        .arg("-o")
        .arg(folder.join("libcuda.so.1"))
        .status();
    assert!(built.unwrap().success());
    let run = Command::new(env::current_exe().unwrap())
        .args(["--exact", "memory_is_exchanged_and_freed_in_the_order_of_its_stream", "--ignored"])
        .env("LD_LIBRARY_PATH", folder)
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && out.contains("1 passed"), "{out}");
}

#[test]
#[ignore = "the test above runs it with the fake driver"]
fn memory_is_exchanged_and_freed_in_the_order_of_its_stream() {
    let stream = CudaContext::new(0).unwrap().new_stream().unwrap();
    let handle = stream.cu_stream() as usize;
    let slice = stream.clone_htod(&[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    let tensor = Tensor::from_cuda(slice, &[2, 3]).unwrap();
    assert_eq!(format!("{tensor:?}"), "Tensor float32[2, 3] on cuda:0");
    assert!(matches!(tensor.view::<f32>(), Err(Error::Type(_) | Error::Value(_))));

    said(c"fake_calls");
    let exported = tensor.into_dlpack().unwrap();
    let calls = said(c"fake_calls");
    assert!(calls.trim_end().lines().last().unwrap().starts_with("0x1 waits for"), "{calls}");
    drop(exported);
    let calls = said(c"fake_calls");
    let freed = format!("free on {handle:#x}\n");
    assert!(calls.starts_with("synchronize device 0\n") && calls.ends_with(&freed), "{calls}");
    assert_eq!(said(c"fake_violations"), "");
}

unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// What the fake driver has noted since it was asked last.
fn said(function: &CStr) -> String {
    // SAFETY: the library is loaded already, and its functions of these names return text.
    unsafe {
        let function = dlsym(dlopen(c"libcuda.so.1".as_ptr(), 1), function.as_ptr());
        assert!(!function.is_null(), "the driver is not the fake one");
        let function =
            std::mem::transmute::<*mut c_void, extern "C" fn() -> *const c_char>(function);
        CStr::from_ptr(function()).to_string_lossy().into_owned()
    }
}
