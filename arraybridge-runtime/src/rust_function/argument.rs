//! The arguments of a declared function.

use ndarray::{ArrayView, ArrayViewMut, Dimension, RawArrayView, RawArrayViewMut};
use pyo3::prelude::*;

use super::constraints::{is_contiguous, not_contiguous};
use super::copies::{Copied, why_copied, why_made};
use super::{Detach, RustCall, Usage};
use crate::convert::plan::Why;
use crate::convert::{self, trace};
use crate::interpreter::error::{Error, Result};
use crate::tensor::Tensor;
use arraybridge_host::dtype::DType;
use arraybridge_tensor::memory::element::Element;
use arraybridge_tensor::memory::source::Owner;
use arraybridge_tensor::memory::view::View;
use arraybridge_tensor::tensor::elements::{expect_bools, raw, raw_mut};

/// An array argument of a declared function.
///
/// It is implemented for the views of `ndarray` of every rank and element type, for `DeviceView` and
/// `DeviceViewMut`, for [`Tensor`] and `&Tensor`, for an `Option` of each, and for containers of these. A
/// type that is neither one of these nor a Python value does not compile:
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
    note = "arrays are taken as `ArrayView`, `ArrayViewMut`, `DeviceView`, `DeviceViewMut`, `Tensor`, \
            `&Tensor`, an `Option`, or a `Vec`, an array, a tuple or a map with `String` keys of \
            these"
)]
pub trait Argument<'a>: Sized {
    /// Keeps the memory alive during the call.
    type Holder;

    /// Finds the arrays in a container, before any array of the call is opened.
    ///
    /// # Errors
    ///
    /// The reason why the object is not such a container.
    fn find(_: &RustCall<'_, '_>, _: usize) -> Result<()> {
        Ok(())
    }

    /// True if it can be asked to be contiguous, and to be no copy.
    const CONSTRAINED: bool = false;

    /// Reads what the caller gave. An array that is not contiguous is copied with `CONTIGUOUS`, unless it has to be
    /// `SHARED`.
    ///
    /// # Errors
    ///
    /// The reason why the object cannot be such an argument.
    fn open<const CONTIGUOUS: bool, const SHARED: bool>(
        call: &RustCall<'_, '_>,
        index: usize,
    ) -> Result<Self::Holder>;

    /// The argument.
    fn get(holder: &'a mut Self::Holder) -> Self;

    /// The shape of what the caller gave, if it is an array.
    fn shape(_: &Self::Holder) -> Option<&[usize]> {
        None
    }
}

/// Host memory as an array that is not dereferenced yet.
pub struct OpenedArray<A> {
    pub(super) array: A,
    // It lives as long as the call. A NumPy array that is read in place is kept alive by the caller.
    _owner: Option<Owner>,
}

impl<'a, T: Element, D: Dimension> Argument<'a> for ArrayView<'a, T, D> {
    type Holder = OpenedArray<RawArrayView<T, D>>;

    const CONSTRAINED: bool = true;

    #[inline]
    fn open<const CONTIGUOUS: bool, const SHARED: bool>(
        call: &RustCall<'_, '_>,
        index: usize,
    ) -> Result<Self::Holder> {
        let given = required(call, index)?;
        // Python code may write any byte, and a byte of 2 is not a `bool`.
        let copies = T::DTYPE == DType::Bool && call.python_runs();
        let open_raw = |view: &View| {
            if CONTIGUOUS && !is_contiguous(view) {
                return Err(not_contiguous());
            }
            Ok(raw(view)?)
        };
        let may_share = !copies && call.function.entry.detach != Detach::Copy;
        if may_share && let Some(array) = call.in_place(index, &given, false, open_raw) {
            return Ok(OpenedArray { array, _owner: None });
        }
        let open = || {
            let start = trace::start();
            let mut opened = convert::open_on_host(&given)?;
            call.stop_gradient(&given)?;
            let cast = call.function.entry.cast;
            expect::<T, D>(call, index, opened.source.view(), cast)?;
            let is_exposed = call.is_exposed(index, &opened);
            match why_copied(&given, &opened, T::DTYPE, copies, CONTIGUOUS, is_exposed) {
                None => call.pin(&given, &opened)?,
                Some((_, why)) if SHARED => return Err(call.copied(&given, why)),
                Some((why, _)) => {
                    opened = call.copy(
                        index,
                        opened,
                        Copied { why, to: T::DTYPE, contiguous: CONTIGUOUS, start },
                    )?;
                }
            }
            let (view, owner) = opened.source.into_parts();
            let array = raw(&view)?;
            match opened.private {
                true => {
                    if T::DTYPE == DType::Bool {
                        // SAFETY: the owner keeps the memory, and nobody else has it.
                        unsafe { expect_bools(&view) }?;
                    }
                    call.note_private(&view);
                }
                false => call.note(index, view, false, T::DTYPE == DType::Bool),
            }
            Ok(OpenedArray { array, _owner: Some(owner) })
        };
        open().map_err(|error| call.about(index, error))
    }

    fn shape(holder: &Self::Holder) -> Option<&[usize]> {
        Some(holder.array.shape())
    }

    fn get(holder: &'a mut Self::Holder) -> Self {
        // SAFETY: `open` checked the element type, the alignment and the bounds. The holder, or the
        // caller of the function, keeps the memory alive while the holder is borrowed. The call has
        // claimed the memory, so that no other argument of it is written through, and then checked
        // bools. Python code that
        // writes meanwhile, in this thread or in another one, breaks what ARCHITECTURE.md assumes of
        // Python threads.
        unsafe { holder.array.clone().deref_into_view() }
    }
}

impl<'a, T: Element, D: Dimension> Argument<'a> for ArrayViewMut<'a, T, D> {
    type Holder = OpenedArray<RawArrayViewMut<T, D>>;
    const CONSTRAINED: bool = true;

    fn open<const CONTIGUOUS: bool, const SHARED: bool>(
        call: &RustCall<'_, '_>,
        index: usize,
    ) -> Result<Self::Holder> {
        let given = required(call, index)?;
        if T::DTYPE == DType::Bool && call.python_runs() {
            return Err(call.about(index, writable_bools()));
        }
        let open_raw = |view: &View| match CONTIGUOUS && !is_contiguous(view) {
            true => Err(not_contiguous()),
            false => Ok(raw_mut(view)?),
        };
        if let Some(array) = call.in_place(index, &given, true, open_raw) {
            return Ok(OpenedArray { array, _owner: None });
        }
        let open = || {
            let start = trace::start();
            let is_new = call.gives_new(&given);
            let mut opened = match is_new {
                true => convert::open_on_host(&given)?,
                false => convert::open_writable(&given)?,
            };
            expect::<T, D>(call, index, opened.source.view(), false)?;
            match is_new {
                true => {
                    call.stop_gradient(&given)?;
                    let copied =
                        Copied { why: Why::Immutable, to: T::DTYPE, contiguous: CONTIGUOUS, start };
                    opened = call.copy(index, opened, copied)?;
                }
                false => call.pin(&given, &opened)?,
            }
            let (view, owner) = opened.source.into_parts();
            let array = open_raw(&view)?;
            match is_new {
                true => {
                    if T::DTYPE == DType::Bool {
                        // SAFETY: the owner keeps the memory, and nobody else has it.
                        unsafe { expect_bools(&view) }?;
                    }
                    call.note_private(&view);
                }
                false => call.note(index, view, true, T::DTYPE == DType::Bool),
            }
            Ok(OpenedArray { array, _owner: Some(owner) })
        };
        open().map_err(|error| call.about(index, error))
    }

    fn get(holder: &'a mut Self::Holder) -> Self {
        // SAFETY: `open` checked the element type, the alignment and the bounds, that the memory is
        // writable, and that no two elements share bytes. The holder, or the caller of the function,
        // keeps the memory alive while the holder is borrowed. The call has claimed the memory, so
        // that no other argument of it has a byte in common. Python code that uses the memory
        // meanwhile breaks what ARCHITECTURE.md assumes of Python threads.
        unsafe { holder.array.clone().deref_into_view_mut() }
    }

    fn shape(holder: &Self::Holder) -> Option<&[usize]> {
        Some(holder.array.shape())
    }
}

macro_rules! tensors {
    ($($tensor:ty: |$holder:ident| $get:expr;)*) => {$(
        impl<'a> Argument<'a> for $tensor {
            type Holder = Option<Tensor>;

            fn open<const CONTIGUOUS: bool, const SHARED: bool>(
                call: &RustCall<'_, '_>,
                index: usize,
            ) -> Result<Option<Tensor>> {
                open_tensor(call, index).map(Some)
            }

            fn get($holder: &'a mut Option<Tensor>) -> Self {
                $get.expect("an argument is taken once")
            }

            fn shape(holder: &Option<Tensor>) -> Option<&[usize]> {
                holder.as_ref().map(Tensor::shape)
            }
        }
    )*};
}

tensors! {
    Tensor: |holder| holder.take();
    &'a Tensor: |holder| holder.as_ref();
}

impl<'a, A: Argument<'a>> Argument<'a> for Option<A> {
    type Holder = Option<A::Holder>;
    const CONSTRAINED: bool = A::CONSTRAINED;

    fn find(call: &RustCall<'_, '_>, index: usize) -> Result<()> {
        if call.is_given(index) { A::find(call, index) } else { Ok(()) }
    }

    fn open<const CONTIGUOUS: bool, const SHARED: bool>(
        call: &RustCall<'_, '_>,
        index: usize,
    ) -> Result<Option<A::Holder>> {
        call.is_given(index).then(|| A::open::<CONTIGUOUS, SHARED>(call, index)).transpose()
    }

    fn get(holder: &'a mut Option<A::Holder>) -> Self {
        holder.as_mut().map(A::get)
    }

    fn shape(holder: &Option<A::Holder>) -> Option<&[usize]> {
        holder.as_ref().and_then(A::shape)
    }
}

fn open_tensor(call: &RustCall<'_, '_>, index: usize) -> Result<Tensor> {
    let open = |given: &Bound<'_, PyAny>| {
        let start = trace::start();
        let mut opened = convert::open_to_hold(given, call.stream_handle())?;
        call.stop_gradient(given)?;
        let why = match opened.private {
            true => Some(why_made(given)),
            false => call.is_exposed(index, &opened).then_some(Why::Detached),
        };
        if let Some(why) = why {
            let to = opened.source.view().dtype();
            opened = call.copy(index, opened, Copied { why, to, contiguous: false, start })?;
        }
        match opened.private {
            true => call.note_private(opened.source.view()),
            // Bools of a tensor are checked when they are viewed.
            false => call.note(index, opened.source.view().clone(), false, false),
        }
        call.tensor_of(given, opened)
    };
    open(&*required(call, index)?).map_err(|error| call.about(index, error))
}

pub(super) fn required<'c, 'py>(
    call: &'c RustCall<'_, 'py>,
    index: usize,
) -> Result<Borrowed<'c, 'py, PyAny>> {
    call.given(index).ok_or_else(|| call.about(index, Error::Type("an array is needed".into())))
}

/// Checks the rank, and the element type unless it is going to be cast.
fn expect<T: Element, D: Dimension>(
    call: &RustCall<'_, '_>,
    index: usize,
    view: &View,
    cast: bool,
) -> Result<()> {
    let rank_fits = D::NDIM.is_none_or(|wanted| wanted == view.ndim());
    if rank_fits && (cast || view.dtype() == T::DTYPE) {
        return Ok(());
    }
    Err(another_array(call, index, (view.ndim(), view.dtype().name()), T::DTYPE, D::NDIM))
}

#[cold]
pub(super) fn another_array(
    call: &RustCall<'_, '_>,
    index: usize,
    (ndim, found): (usize, &str),
    dtype: DType,
    rank: Option<usize>,
) -> Error {
    let wanted = rank.map(|wanted| format!("{wanted}-dimensional ")).unwrap_or_default();
    let mut text =
        format!("expected a {wanted}{dtype} array, not a {ndim}-dimensional {found} one");
    let entry = call.function.entry;
    let before = entry.parameters.get(..index).unwrap_or_default();
    let is_first = index < entry.parameters.len() && before.iter().all(|p| p.usage == Usage::Value);
    if is_first && (rank, ndim) == (Some(2), 3) && entry.keywords.contains(&"slice_by_slice") {
        text += "; slice_by_slice=True calls the function for each 2-D slice";
    }
    Error::Type(text)
}

#[cold]
fn writable_bools() -> Error {
    let text = "bools cannot be written to in place while Python code runs, which could write other \
                bytes to them; return a new array";
    Error::Type(text.into())
}

impl<'a, 'py> RustCall<'a, 'py> {
    /// A plain Python value, or an object that the declaration has converted; `None` if the caller
    /// left it out.
    ///
    /// # Errors
    ///
    /// `TypeError` when it has another type.
    pub fn value<T: FromPyObject<'a, 'py>>(&self, index: usize) -> Result<Option<T>> {
        let Some(given) = self.given[index] else { return Ok(None) };
        self.extracted(index, given).map(Some)
    }

    /// The instance or the class that a method is called on.
    ///
    /// # Errors
    ///
    /// `TypeError` when it has another type; `RuntimeError` when it is borrowed.
    pub fn required<T: FromPyObject<'a, 'py>>(&self, index: usize) -> Result<T> {
        let given = self.given[index].expect("required arguments were checked before the call");
        self.extracted(index, given)
    }

    #[inline]
    fn extracted<T: FromPyObject<'a, 'py>>(
        &self,
        index: usize,
        given: Borrowed<'a, 'py, PyAny>,
    ) -> Result<T> {
        let extracted = T::extract(given).map_err(|error| Error::Python(error.into()));
        extracted.map_err(|error| self.about(index, error))
    }
}
