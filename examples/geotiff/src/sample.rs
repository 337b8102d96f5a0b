//! The types of pixels.

use arraybridge_runtime::prelude::*;

/// The type of a pixel of one band.
pub trait Sample: Element {
    /// From the bytes of one value, in native order.
    fn from_bytes(bytes: &[u8]) -> Self;

    /// The nearest value of the type; NaN becomes 0 in an integer.
    fn from_f64(value: f64) -> Self;
}

macro_rules! samples {
    ($($type:ty),*) => {$(
        impl Sample for $type {
            fn from_bytes(bytes: &[u8]) -> Self {
                Self::from_ne_bytes(bytes.try_into().expect("as many bytes as the type has"))
            }

            fn from_f64(value: f64) -> Self {
                value as $type
            }
        }
    )*};
}
samples!(u8, u16, u32, u64, i8, i16, i32, i64, f32, f64);

/// Runs an expression with the type of a layout's samples bound to a name.
macro_rules! with_type {
    ($layout:expr, $type:ident, $body:expr) => {
        with_type!(@ $layout, $type, $body, [
            1 1 u8, 1 2 u16, 1 4 u32, 1 8 u64, 2 1 i8, 2 2 i16, 2 4 i32, 2 8 i64, 3 4 f32,
            3 8 f64,
        ])
    };
    (@ $layout:expr, $type:ident, $body:expr, [$($format:literal $bytes:literal $sample:ty,)*]) => {
        match ($layout.sample_format, $layout.bytes_per_sample) {
            $(($format, $bytes) => {
                type $type = $sample;
                $body
            })*
            (format, bytes) => {
                let text = format!("samples of format {format} and {bytes} bytes are not read");
                Err(PyValueError::new_err(text))
            }
        }
    };
}
