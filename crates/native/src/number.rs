//! The types of the numbers that an operator takes, and lengths that are computed from them.

use arraybridge_host::dtype::DType;
use arraybridge_tensor::memory::element::Element;

use crate::error::Error;

/// An argument that is a number. A program has it as an attribute.
pub trait Number: Copy {
    /// The type that the program stores. JAX stores no `u64` above the largest `i64`, so that it has the bits of one.
    type Stored: Element;
    /// That type.
    const DTYPE: DType = <Self::Stored as Element>::DTYPE;

    /// The number as the program stores it.
    fn stored(self) -> Self::Stored;

    /// The number; `None` if it does not fit.
    fn of(stored: Self::Stored) -> Option<Self>;

    /// The number from an integer, the bits of a double or a bool, as PyTorch passes it.
    fn of_word(word: u64) -> Option<Self>;
}

macro_rules! numbers {
    ($($number:ty as $wide:ty as $stored:ty: $word:ident),*) => {$(
        impl Number for $number {
            type Stored = $stored;

            fn stored(self) -> $stored {
                self as $stored
            }

            fn of(stored: $stored) -> Option<$number> {
                (stored as $wide).try_into().ok()
            }

            fn of_word(word: u64) -> Option<$number> {
                Self::of($word!(word as $stored))
            }
        }
    )*};
}

macro_rules! flag {
    ($word:ident as $stored:ty) => {
        $word & 0xff != 0
    };
}

macro_rules! integer {
    ($word:ident as $stored:ty) => {
        <$stored>::try_from($word as i64).ok()?
    };
}

macro_rules! float {
    ($word:ident as $stored:ty) => {
        f64::from_bits($word) as $stored
    };
}

numbers! {
    bool as bool as bool: flag, u8 as u8 as u8: integer, u16 as u16 as u16: integer,
    u32 as u32 as u32: integer, u64 as u64 as i64: integer, usize as u64 as i64: integer,
    i8 as i8 as i8: integer, i16 as i16 as i16: integer, i32 as i32 as i32: integer,
    i64 as i64 as i64: integer, isize as i64 as i64: integer, f32 as f32 as f32: float,
    f64 as f64 as f64: float
}

/// The length of an axis, from the value of a rule.
///
/// # Errors
///
/// It is negative or too large.
pub fn length(value: impl TryInto<usize>, rule: &str) -> Result<usize, Error> {
    let length = value.try_into().ok().filter(|length| isize::try_from(*length).is_ok());
    length.ok_or_else(|| Error::invalid(format_args!("`{rule}` is not the length of an axis")))
}

/// Where the lengths of a result come from.
#[derive(Clone, Copy, Debug)]
pub enum Origin {
    /// The shape of the array with this number.
    Like(usize),
    /// For each axis, the axes of arrays that it is computed from, and whether it is the only one of them.
    ///
    /// An axis is counted from the start, or from the end if it is negative; `isize::MAX` is any axis.
    Axes(&'static [(bool, &'static [(usize, isize)])]),
}
