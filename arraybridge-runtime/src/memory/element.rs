//! Rust types that are elements of arrays.

use half::{bf16, f16};
use num_complex::Complex;

use crate::host::dtype::DType;

/// A Rust type that has the layout of an element type.
///
/// # Safety
///
/// The type has the size and the meaning that [`Element::DTYPE`] says. Every pattern of bits is a
/// value of it, or the type is `bool`, whose bytes are looked at before they are seen as such.
pub unsafe trait Element: Copy + Default + Send + Sync + 'static {
    /// The element type.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($type:ty => $dtype:ident,)*) => {
        $(
            // SAFETY: the layouts are the same, and only `bool` has invalid patterns.
            unsafe impl Element for $type {
                const DTYPE: DType = DType::$dtype;
            }
            const _: () = assert!(size_of::<$type>() == DType::$dtype.size());
        )*
    };
}

elements! {
    bool => Bool,
    u8 => Uint8,
    u16 => Uint16,
    u32 => Uint32,
    u64 => Uint64,
    i8 => Int8,
    i16 => Int16,
    i32 => Int32,
    i64 => Int64,
    f16 => Float16,
    bf16 => Bfloat16,
    f32 => Float32,
    f64 => Float64,
    Complex<f32> => Complex64,
    Complex<f64> => Complex128,
}
