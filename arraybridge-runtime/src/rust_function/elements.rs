//! Functions that are declared for several element types: which one a call uses, and plain values of
//! it.

use std::cmp::Reverse;

use arraybridge_tensor::prelude::Complex;
#[cfg(feature = "half")]
use arraybridge_tensor::prelude::{bf16, f16};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyComplex, PyComplexMethods, PyString};

use super::argument::required;
use super::{RustCall, Usage};
use crate::convert;
use crate::framework::detect;
use crate::framework::loaded;
use crate::interpreter::containers::Container;
use crate::interpreter::error::{Error, Result};
use arraybridge_host::dtype::{DType, Kind};
use arraybridge_tensor::memory::element::Element;

/// Reads the arguments of a call, calls the function, and hands over its result.
pub type Trampoline = for<'py> fn(&RustCall<'_, 'py>) -> Result<Bound<'py, PyAny>>;

/// An element type as a plain value.
pub trait Scalar: Element {
    /// Reads a value.
    ///
    /// # Errors
    ///
    /// `TypeError` for an object that is not such a number, and `OverflowError` for one that does not fit.
    fn from_py(object: &Bound<'_, PyAny>) -> PyResult<Self>;

    /// Makes a Python object.
    fn into_py(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>>;
}

macro_rules! numbers {
    ($($element:ty)*) => {$(
        impl Scalar for $element {
            fn from_py(object: &Bound<'_, PyAny>) -> PyResult<$element> {
                object.extract()
            }

            fn into_py(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
                self.into_bound_py_any(py)
            }
        }
    )*};
}

numbers!(bool u8 u16 u32 u64 i8 i16 i32 i64 f32 f64);

#[cfg(feature = "half")]
macro_rules! halves {
    ($($element:ty)*) => {$(
        impl Scalar for $element {
            fn from_py(object: &Bound<'_, PyAny>) -> PyResult<$element> {
                object.extract().map(<$element>::from_f64)
            }

            fn into_py(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
                self.to_f64().into_bound_py_any(py)
            }
        }
    )*};
}

#[cfg(feature = "half")]
halves!(f16 bf16);

impl Scalar for Complex<f64> {
    fn from_py(object: &Bound<'_, PyAny>) -> PyResult<Complex<f64>> {
        let py = object.py();
        // `complex` reads text as well.
        if object.is_instance_of::<PyString>() {
            return Err(PyTypeError::new_err("must be a number, not str"));
        }
        let number = py.get_type::<PyComplex>().call1((object,))?;
        let number = number.cast::<PyComplex>()?;
        Ok(Complex::new(number.real(), number.imag()))
    }

    fn into_py(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        Ok(PyComplex::from_doubles(py, self.re, self.im).into_any())
    }
}

impl Scalar for Complex<f32> {
    fn from_py(object: &Bound<'_, PyAny>) -> PyResult<Complex<f32>> {
        let number = Complex::<f64>::from_py(object)?;
        Ok(Complex::new(number.re as f32, number.im as f32))
    }

    fn into_py(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        Complex::new(f64::from(self.re), f64::from(self.im)).into_py(py)
    }
}

impl<'py> RustCall<'_, 'py> {
    /// Calls the function for the element type of an array argument.
    ///
    /// # Errors
    ///
    /// [`Error::Type`] when there is no function for it; what the function raises.
    pub fn dispatch(
        &self,
        index: usize,
        functions: &[(DType, Trampoline)],
    ) -> Result<Bound<'py, PyAny>> {
        let given = required(self, index)?;
        let array = first_array(&given).map_err(|error| self.about(index, error))?;
        let dtype = self.dtype_of(&array).map_err(|error| self.about(index, error))?;
        let entry = self.function.entry;
        let has = |wanted| functions.iter().position(|(dtype, _)| *dtype == wanted);
        let may_cast = entry.cast && entry.parameters[index].usage != Usage::Written;
        let cast = || {
            let to = may_cast.then(|| cast_to(functions.iter().map(|(dtype, _)| *dtype), dtype));
            has(to.flatten()?)
        };
        match has(dtype).or_else(cast) {
            Some(chosen) => functions[chosen].1(self),
            None => Err(self.about(index, no_function(functions, dtype))),
        }
    }

    /// The element type of an array of any framework.
    fn dtype_of(&self, given: &Bound<'py, PyAny>) -> Result<DType> {
        if let Some(class) = detect::class_of(given) {
            let loaded = loaded::load(self.py, class.framework)?;
            if let Some(dtype) = loaded.dtype(given) {
                return Ok(dtype);
            }
        }
        Ok(convert::open_to_hold(given, self.stream_handle())?.source.view().dtype())
    }

    /// Says which argument decides the element type that an error is about.
    #[cold]
    pub fn decided_by(&self, index: usize, error: Error) -> Error {
        let name = self.function.entry.parameters[index].name;
        match error {
            Error::Type(text) => Error::Type(format!("{text}; the dtype of '{name}' decides")),
            other => other,
        }
    }

    /// A plain value of an element type; `None` if the caller left it out.
    pub fn scalar<T: Scalar>(&self, index: usize) -> Result<Option<T>> {
        let Some(given) = self.given(index) else { return Ok(None) };
        let read = T::from_py(&given).map_err(Error::Python);
        read.map(Some).map_err(|error| self.about(index, error))
    }

    /// Does what [`scalar`](Self::scalar) does, with `None` for Python's as well.
    pub fn optional_scalar<T: Scalar>(&self, index: usize) -> Result<Option<T>> {
        if self.is_given(index) { self.scalar(index) } else { Ok(None) }
    }

    /// Gives a plain value of an element type.
    pub fn give_scalar<T: Scalar>(&self, value: T) -> Result<Bound<'py, PyAny>> {
        Ok(value.into_py(self.py)?)
    }
}

/// The dtype that an array of another one is cast to: the first that holds every value exactly. If none
/// does, the largest of floats; for complex arrays, and where there are no floats, of complex numbers.
fn cast_to(dtypes: impl Iterator<Item = DType> + Clone, from: DType) -> Option<DType> {
    let largest = |kind: Kind| {
        let same = dtypes.clone().filter(|dtype| dtype.kind() == kind);
        same.min_by_key(|dtype| Reverse(dtype.size()))
    };
    let exact = dtypes.clone().find(|to| to.holds(from));
    let float = || largest(Kind::Float).filter(|_| from.kind() != Kind::Complex);
    exact.or_else(float).or_else(|| largest(Kind::Complex))
}

/// An array, or the first one in a container. A list that contains itself has no end.
fn first_array<'py>(given: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
    const DEEPEST: usize = 64;
    let mut given = given.clone();
    for _ in 0..DEEPEST {
        if detect::class_of(&given).is_some() {
            return Ok(given);
        }
        let Some(container) = Container::of(&given) else { return Ok(given) };
        match container.items()?.first() {
            Some(first) => given = first.clone(),
            None => break,
        }
    }
    Err(Error::Type("an array is needed, whose dtype decides".into()))
}

#[cold]
fn no_function(functions: &[(DType, Trampoline)], given: DType) -> Error {
    let names: Vec<_> = functions.iter().map(|(dtype, _)| dtype.name()).collect();
    let known = match &names[..] {
        [before @ .., last] if !before.is_empty() => format!("{} or {last}", before.join(", ")),
        names => names.concat(),
    };
    Error::Type(format!("expected an array of {known}, not of {given}"))
}

#[cfg(test)]
mod tests;
