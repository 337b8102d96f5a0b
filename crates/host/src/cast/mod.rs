//! Exact casts between all element types.
//!
//! Their loops are nearly half of the machine code of this crate. With the feature `casts` they are compiled
//! in. An extension module without it calls those of the `arraybridge` package, by a table of C functions.

#[cfg(feature = "casts")]
mod element;
#[cfg(feature = "casts")]
mod kernel;
#[cfg(feature = "casts")]
mod pass;
#[cfg(feature = "casts")]
mod plan;
#[cfg(feature = "casts")]
mod run;
#[cfg(feature = "casts")]
mod small;
pub mod table;
#[cfg(all(test, feature = "casts"))]
mod tests;

use crate::dtype::DType;
use crate::parallel::Threads;

#[cfg(feature = "casts")]
pub use self::run::{cast_into, cast_strided, count_rounded};
#[cfg(not(feature = "casts"))]
pub use self::table::{cast_strided, count_rounded};

/// The way in which floating point numbers become integers. It does not affect other casts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Scaling {
    /// Round half to even and saturate; NaN is 0.
    #[default]
    Clamp,
    /// Values in [0, 1], or [-1, 1] for signed integers: multiplied by the integer's largest value, then as
    /// `Clamp`. The exact product is rounded once.
    Unit,
    /// The array's finite minimum and maximum become the integer's smallest and largest value:
    /// `(x - min) / (max - min) * (MAX - MIN)`, computed in `f64` and rounded half to even, plus `MIN`. If all
    /// finite values are equal, there is no range, and they are cast as by `Clamp`. Infinities saturate; NaN is 0.
    Stretch,
}

/// The result of a cast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct CastReport {
    /// The number of values that were out of the integer's range after rounding, or NaN. For
    /// [`Scaling::Stretch`], the number of infinities and NaN. For a target of floats, the number of
    /// finite values that became infinite or NaN.
    pub clipped: u64,
    /// The number of values between whole numbers that were rounded to an integer. 0 for any scaling
    /// but [`Scaling::Clamp`].
    pub fractions: u64,
}

/// A cast that cannot be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CastError {
    /// A cast from complex to real numbers.
    #[error(
        "a {from} array cannot become {to}: the imaginary part would be lost; take the real part first"
    )]
    Complex {
        /// The element type of the source.
        from: DType,
        /// The element type of the target.
        to: DType,
    },
    /// A cast in an extension module without the feature `casts`.
    #[error(
        "this extension casts with the loops of the arraybridge package, which it could not import: \
         pip install arraybridge-rs, or build arraybridge-runtime with its feature `casts`"
    )]
    NotImported,
}

/// A cast: the element type of its result, and how it is done.
#[derive(Clone, Copy, Debug)]
pub struct Cast {
    /// The element type of the target.
    pub dtype: DType,
    /// The way in which floating point numbers become integers.
    pub scaling: Scaling,
    /// The threads over which a large array is split.
    pub threads: Threads,
}
