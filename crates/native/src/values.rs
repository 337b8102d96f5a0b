//! The types of the arrays that an operator takes and gives.

use arraybridge_host::dtype::DType;
use arraybridge_tensor::memory::element::Element;
use ndarray::{Array, ArrayView, ArrayViewMut, Dimension};

use crate::error::Error;
use crate::frame::Frame;

/// An argument that is an array.
pub trait View<'a>: Sized {
    /// The element type.
    const DTYPE: DType;
    /// The number of dimensions; `None` for any.
    const RANK: Option<usize>;

    /// The array of a frame.
    ///
    /// # Errors
    ///
    /// The array has another element type or another number of dimensions.
    fn of(frame: &'a Frame<'_>, index: usize) -> Result<Self, Error>;
}

impl<'a, T: Element, D: Dimension> View<'a> for ArrayView<'a, T, D> {
    const DTYPE: DType = T::DTYPE;
    const RANK: Option<usize> = D::NDIM;

    fn of(frame: &'a Frame<'_>, index: usize) -> Result<Self, Error> {
        frame.view(index)
    }
}

impl<'a, T: Element, D: Dimension> View<'a> for ArrayViewMut<'a, T, D> {
    const DTYPE: DType = T::DTYPE;
    const RANK: Option<usize> = D::NDIM;

    fn of(frame: &'a Frame<'_>, index: usize) -> Result<Self, Error> {
        frame.view_mut(index)
    }
}

/// An array that a function returns.
pub trait Returned {
    /// The element type.
    const DTYPE: DType;

    /// Writes it to the next result of a frame.
    ///
    /// # Errors
    ///
    /// That result has another shape or another element type, or the program has none.
    fn give(self, frame: &mut Frame<'_>) -> Result<(), Error>;
}

impl<T: Element, D: Dimension> Returned for Array<T, D> {
    const DTYPE: DType = T::DTYPE;

    fn give(self, frame: &mut Frame<'_>) -> Result<(), Error> {
        frame.give(&self)
    }
}

/// What a function returns: an array, a tuple of arrays, or nothing.
pub trait Results {
    /// The element type of each.
    const DTYPES: &'static [DType];
    /// True for a tuple.
    const IS_TUPLE: bool;

    /// Writes them to the results of a frame.
    ///
    /// # Errors
    ///
    /// Those of [`Returned::give`].
    fn give(self, frame: &mut Frame<'_>) -> Result<(), Error>;
}

impl<R: Returned> Results for R {
    const DTYPES: &'static [DType] = &[R::DTYPE];
    const IS_TUPLE: bool = false;

    fn give(self, frame: &mut Frame<'_>) -> Result<(), Error> {
        Returned::give(self, frame)
    }
}

impl Results for () {
    const DTYPES: &'static [DType] = &[];
    const IS_TUPLE: bool = false;

    fn give(self, _: &mut Frame<'_>) -> Result<(), Error> {
        Ok(())
    }
}

macro_rules! tuples {
    ($($($name:ident $ty:ident),*;)*) => {$(
        impl<$($ty: Returned),*> Results for ($($ty,)*) {
            const DTYPES: &'static [DType] = &[$($ty::DTYPE),*];
            const IS_TUPLE: bool = true;

            fn give(self, frame: &mut Frame<'_>) -> Result<(), Error> {
                let ($($name,)*) = self;
                $($name.give(frame)?;)*
                Ok(())
            }
        }
    )*};
}

tuples! {
    a A;
    a A, b B;
    a A, b B, c C;
    a A, b B, c C, d E;
}
