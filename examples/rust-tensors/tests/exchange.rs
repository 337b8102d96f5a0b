//! The values are right after each exchange, and no Python is involved.

use std::process::Command;

use arraybridge_tensor::prelude::*;
use image::{Luma, Rgb};
use rust_tensors::{Picture, from_picture, into_picture};

fn picture() -> Picture<Rgb<u8>> {
    Picture::from_fn(3, 2, |x, y| Rgb([x as u8, y as u8, 200]))
}

#[test]
fn a_picture_becomes_a_tensor_of_its_memory() {
    let picture = picture();
    let address = picture.as_raw().as_ptr();
    let tensor = from_picture(picture).unwrap();
    assert_eq!((tensor.dtype(), tensor.shape()), (DType::Uint8, &[2, 3, 3][..]));
    let pixels = tensor.view::<u8>().unwrap();
    assert_eq!(pixels.as_ptr(), address);
    assert_eq!((pixels[[1, 2, 0]], pixels[[1, 2, 1]], pixels[[0, 0, 2]]), (2, 1, 200));
}

#[test]
fn an_array_becomes_a_picture_of_its_memory() {
    let array = Array3::from_shape_fn((2, 3, 1), |(y, x, _)| (10 * y + x) as u16);
    let address = array.as_ptr();
    let picture = into_picture::<Luma<u16>>(array.into()).unwrap();
    assert_eq!((picture.dimensions(), picture.as_ptr()), ((3, 2), address));
    assert_eq!(picture.get_pixel(2, 1), &Luma([12]));
}

#[test]
fn a_picture_of_other_pixels_is_refused() {
    assert!(into_picture::<Luma<u8>>(from_picture(picture()).unwrap()).is_err());
    assert!(into_picture::<Rgb<u16>>(from_picture(picture()).unwrap()).is_err());
    assert!(into_picture::<Rgb<u8>>(from_picture(picture()).unwrap()).is_ok());
}

#[cfg(feature = "candle")]
#[test]
fn candle_reads_what_is_strided_and_gives_its_memory() {
    use rust_tensors::candle::{from_candle, to_candle};

    let array = Array2::from_shape_fn((2, 3), |(y, x)| (10 * y + x) as f32).reversed_axes();
    let tensor = to_candle(Tensor::from(array.clone())).unwrap();
    assert_eq!(tensor.to_vec2::<f32>().unwrap(), [[0.0, 10.0], [1.0, 11.0], [2.0, 12.0]]);
    let doubled = (tensor * 2.0).unwrap();
    // SAFETY: nobody else has the tensor.
    let back = unsafe { from_candle(doubled) }.unwrap();
    assert_eq!(*back.view::<f32>().unwrap(), array.mapv(|x| 2.0 * x).into_dyn());
    assert!(back.is_read_only());
}

#[test]
fn the_program_runs() {
    let output = Command::new(env!("CARGO_BIN_EXE_rust-tensors")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let lines = "a picture is a Tensor uint16[48, 64, 1] on host\n\
                 it is shown from 0 to 255, 0 pixels clipped\n";
    assert_eq!(text, lines);
}

#[test]
fn the_program_has_no_python() {
    let program = std::fs::read(env!("CARGO_BIN_EXE_rust-tensors")).unwrap();
    let text = String::from_utf8_lossy(&program);
    assert!(text.contains("a picture is a"), "texts of the program can be found");
    for name in ["libpython", "Py_Initialize", "PyObject_"] {
        assert!(!text.contains(name), "{name}");
    }
    assert_eq!(text.contains("libcuda"), cfg!(feature = "cuda"));
    let lock = include_str!("../Cargo.lock");
    for package in ["pyo3", "numpy", "arraybridge-macros"] {
        assert!(!lock.contains(&format!("name = \"{package}\"\n")), "{package}");
    }
}
