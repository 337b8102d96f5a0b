//! The Rust types of array elements.

#[cfg(feature = "half")]
use half::{bf16, f16};
use num_complex::Complex;

use arraybridge_host::dtype::DType;

/// The Rust type of an element type.
///
/// # Safety
///
/// The type has the size and the representation of [`Element::DTYPE`]. Every bit pattern is a valid
/// value, or the type is `bool`, whose bytes are checked before they are used as such.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an element type",
    note = "the element types are `bool`, the integers from 8 to 64 bits, `f32`, `f64`, `Complex<f32>`, \
            `Complex<f64>` and, with the feature `half` of arraybridge-runtime, `f16` and `bf16`"
)]
pub unsafe trait Element: Copy + Default + Send + Sync + 'static {
    /// The element type.
    const DTYPE: DType;
}

/// Without the feature, the names stand for types that are not element types: `f16` would otherwise be a type
/// of the language that is not stable.
#[cfg(not(feature = "half"))]
mod without_half {
    #![allow(non_camel_case_types, reason = "the names of the crate `half`")]

    #[doc(hidden)]
    #[derive(Clone, Copy, Debug, Default)]
    pub struct f16;

    #[doc(hidden)]
    #[derive(Clone, Copy, Debug, Default)]
    pub struct bf16;
}

#[cfg(not(feature = "half"))]
pub use without_half::{bf16, f16};

macro_rules! elements {
    ($($type:ty => $dtype:ident,)*) => {
        $(
            // SAFETY: the representations are the same, and only `bool` has invalid bit patterns.
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
    f32 => Float32,
    f64 => Float64,
    Complex<f32> => Complex64,
    Complex<f64> => Complex128,
}

#[cfg(feature = "half")]
elements! {
    f16 => Float16,
    bf16 => Bfloat16,
}
