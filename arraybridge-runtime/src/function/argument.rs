//! What a declared function takes.

use ndarray::{ArrayView, ArrayViewMut, Dimension};
use pyo3::prelude::*;

use super::Call;
use crate::convert::{self, Opened};
use crate::element::Element;
use crate::error::{Error, Result};
use crate::tensor::{HostView, Tensor, parts};
use crate::view::{Dims, Source, View};

/// An array argument of a declared function.
///
/// It is implemented for the views of `ndarray` of every rank and element type, for
/// [`Tensor`] and `&Tensor`, and for an `Option` of each. What is none of these and no Python value
/// either does not compile:
///
/// ```compile_fail,E0277
/// struct Opaque;
///
/// #[arraybridge_runtime::memory_type(numpy)]
/// fn f(_opaque: Opaque) {}
/// ```
///
/// ```compile_fail,E0277
/// use arraybridge_runtime::prelude::*;
///
/// #[memory_type(numpy)]
/// fn f(_characters: ArrayView1<'_, char>) {}
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a declared function",
    note = "arrays are taken as `ArrayView`, `ArrayViewMut`, `Tensor`, `&Tensor` or an `Option` of these"
)]
pub trait Argument<'a>: Sized {
    /// What keeps the memory during the call.
    type Holder;

    /// Reads what the caller gave.
    ///
    /// # Errors
    ///
    /// Why it cannot be such an argument.
    fn open(call: &Call<'_>, index: usize) -> Result<Self::Holder>;

    /// The argument.
    fn get(holder: &'a mut Self::Holder) -> Self;
}

/// Host memory, kept for a call.
pub struct Held<T> {
    parts: HostView<T>,
    // Held for its drop.
    _source: Source,
}

impl<'a, T: Element, D: Dimension> Argument<'a> for ArrayView<'a, T, D> {
    type Holder = Held<T>;

    fn open(call: &Call<'_>, index: usize) -> Result<Held<T>> {
        let open = |given: &Bound<'_, PyAny>| {
            let opened = convert::open_on_host(given)?;
            expect::<T, D>(&opened.source.view, call.function.entry.cast)?;
            let opened = readable::<T>(call, opened)?;
            let parts = parts::<T>(&opened.source.view)?;
            call.covers(index, &opened, false);
            Ok(Held { parts, _source: opened.source })
        };
        open(required(call, index)?).map_err(|error| call.about(index, error))
    }

    fn get(holder: &'a mut Held<T>) -> Self {
        // SAFETY: the holder keeps the memory and is borrowed for as long, nobody else runs while
        // the interpreter is attached, and memory that this call writes to overlaps no other.
        let array = unsafe { holder.parts.array() };
        array.into_dimensionality().expect("the rank was looked at when the argument was opened")
    }
}

impl<'a, T: Element, D: Dimension> Argument<'a> for ArrayViewMut<'a, T, D> {
    type Holder = Held<T>;

    fn open(call: &Call<'_>, index: usize) -> Result<Held<T>> {
        let open = |given: &Bound<'_, PyAny>| {
            let opened = convert::open_writable(given)?;
            let view = &opened.source.view;
            expect::<T, D>(view, false)?;
            let parts = parts::<T>(view)?;
            if !is_injective(view) {
                let text = "elements share memory with one another, so it cannot be written to";
                return Err(Error::Value(text.into()));
            }
            call.covers(index, &opened, true);
            Ok(Held { parts, _source: opened.source })
        };
        open(required(call, index)?).map_err(|error| call.about(index, error))
    }

    fn get(holder: &'a mut Held<T>) -> Self {
        // SAFETY: as above; the memory is writable, its elements are apart from one another, and
        // it overlaps that of no other argument, or the call has been refused.
        let array = unsafe { holder.parts.array_mut() };
        array.into_dimensionality().expect("the rank was looked at when the argument was opened")
    }
}

impl<'a> Argument<'a> for Tensor {
    type Holder = Option<Tensor>;

    fn open(call: &Call<'_>, index: usize) -> Result<Option<Tensor>> {
        open_tensor(call, index).map(Some)
    }

    fn get(holder: &'a mut Option<Tensor>) -> Self {
        holder.take().expect("an argument is taken once")
    }
}

impl<'a> Argument<'a> for &'a Tensor {
    type Holder = Tensor;

    fn open(call: &Call<'_>, index: usize) -> Result<Tensor> {
        open_tensor(call, index)
    }

    fn get(holder: &'a mut Tensor) -> Self {
        holder
    }
}

impl<'a, A: Argument<'a>> Argument<'a> for Option<A> {
    type Holder = Option<A::Holder>;

    fn open(call: &Call<'_>, index: usize) -> Result<Option<A::Holder>> {
        match call.given(index) {
            Some(given) if !given.is_none() => A::open(call, index).map(Some),
            _ => Ok(None),
        }
    }

    fn get(holder: &'a mut Option<A::Holder>) -> Self {
        holder.as_mut().map(A::get)
    }
}

fn open_tensor(call: &Call<'_>, index: usize) -> Result<Tensor> {
    let open = |given: &Bound<'_, PyAny>| {
        let opened = convert::open_any(given)?;
        call.covers(index, &opened, false);
        Tensor::from_opened(call.py, opened)
    };
    open(required(call, index)?).map_err(|error| call.about(index, error))
}

fn required<'a, 'py>(call: &'a Call<'py>, index: usize) -> Result<&'a Bound<'py, PyAny>> {
    call.given(index).ok_or_else(|| call.about(index, Error::Type("an array is needed".into())))
}

fn extract<'v, 'py, T: FromPyObject<'v, 'py>>(object: &'v Bound<'py, PyAny>) -> Result<T> {
    object.extract().map_err(|error: T::Error| Error::Python(error.into()))
}

/// Checks rank and element type; with `cast` any element type will do.
fn expect<T: Element, D: Dimension>(view: &View, cast: bool) -> Result<()> {
    let ndim = view.shape.len();
    let rank_fits = D::NDIM.is_none_or(|wanted| wanted == ndim);
    if rank_fits && (cast || view.dtype == T::DTYPE) {
        return Ok(());
    }
    let rank = D::NDIM.map(|wanted| format!("{wanted}-dimensional ")).unwrap_or_default();
    let wanted = T::DTYPE;
    Err(Error::Type(format!(
        "expected a {rank}{wanted} array, not a {ndim}-dimensional {} one",
        view.dtype
    )))
}

/// The memory itself, or a copy where Rust could not look at it or the element type is another.
fn readable<T: Element>(call: &Call<'_>, opened: Opened) -> Result<Opened> {
    let view = &opened.source.view;
    if view.dtype != T::DTYPE {
        return convert::fresh(call.py, opened, Some(T::DTYPE));
    }
    let fits =
        view.is_empty() || (!view.swapped && view.has_element_strides() && view.is_aligned());
    if fits { Ok(opened) } else { convert::fresh(call.py, opened, None) }
}

/// Whether no two elements share bytes, as far as that can be seen from the strides: each axis
/// steps over what the axes inside it cover.
fn is_injective(view: &View) -> bool {
    let axes = view.shape.iter().zip(&view.strides).filter(|(n, _)| **n > 1);
    let mut axes: Dims<(usize, usize)> = axes.map(|(n, s)| (s.unsigned_abs(), *n)).collect();
    axes.sort_unstable();
    let mut covered = view.dtype.size();
    axes.iter().all(|(stride, n)| {
        let apart = *stride >= covered;
        covered = covered.saturating_add(stride.saturating_mul(n - 1));
        apart
    })
}

impl<'py> Call<'py> {
    /// A plain Python value, or an object that the declaration has converted; `None` where the
    /// caller left it out.
    ///
    /// # Errors
    ///
    /// `TypeError` when it is of another type.
    pub fn value<'v, T: FromPyObject<'v, 'py>>(&'v self, index: usize) -> Result<Option<T>> {
        let Some(given) = self.given(index) else { return Ok(None) };
        extract(given).map(Some).map_err(|error| self.about(index, error))
    }
}
