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
    /// A result of the frame has another shape or another element type.
    fn give(self, frame: &mut Frame<'_>) -> Result<(), Error>;
}

impl<T: Element, D: Dimension> Results for Array<T, D> {
    const DTYPES: &'static [DType] = &[T::DTYPE];
    const IS_TUPLE: bool = false;

    fn give(self, frame: &mut Frame<'_>) -> Result<(), Error> {
        frame.give(&self)
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
    ($($($name:ident $element:ident $dimension:ident),*;)*) => {$(
        impl<$($element: Element, $dimension: Dimension),*> Results for ($(Array<$element, $dimension>,)*) {
            const DTYPES: &'static [DType] = &[$($element::DTYPE),*];
            const IS_TUPLE: bool = true;

            fn give(self, frame: &mut Frame<'_>) -> Result<(), Error> {
                let ($($name,)*) = self;
                $(frame.give(&$name)?;)*
                Ok(())
            }
        }
    )*};
}

tuples! {
    a A D;
    a A D, b B E;
    a A D, b B E, c C F;
    a A D, b B E, c C F, d G H;
}
