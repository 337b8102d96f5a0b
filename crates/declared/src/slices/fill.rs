//! Copies host arrays to their places in one that was allocated for them.

use std::ops::Range;

use pyo3::prelude::*;

use super::check::Along;
use arraybridge_host::buffer::AllocError;
use arraybridge_host::cast::{Cast, CastError, CastReport, Scaling, cast_into};
use arraybridge_host::layout::Dims;
use arraybridge_host::parallel::{self, Threads};
use arraybridge_host::{copy, vectors};
use arraybridge_runtime::convert::Opened;
use arraybridge_runtime::interpreter::error::Result;
use arraybridge_runtime::memory::cast;
use arraybridge_tensor::memory::source::Source;
use arraybridge_tensor::memory::view::View;

/// The share of the result, an 8th, up to which an array is small. If all arrays are small, each
/// thread copies several of them; otherwise each array is split over threads.
const SMALL_PART: usize = 8;

/// Fills the result with the arrays, cast to its dtype.
///
/// # Errors
///
/// [`Error::Value`](arraybridge_runtime::interpreter::error::Error) when a complex array would become real.
pub(super) fn fill(
    py: Python<'_>,
    result: &mut Source,
    arrays: &[Opened],
    along: Along,
) -> Result<()> {
    let result = result.view();
    if result.is_empty() {
        return Ok(());
    }
    let mut end = 0;
    let mut place_of = |array: &View| match along {
        Along::NewAxis => {
            end += 1;
            result.slice(end - 1)
        }
        Along::Axis(axis) => {
            let start = end;
            end += array.shape()[axis];
            result.part(axis, start, end)
        }
    };
    let views = arrays.iter().map(|opened| opened.source.view());
    let parts = views.map(|array| (array, place_of(array))).map(Ok::<_, AllocError>);
    let parts = vectors::collect(parts)?;
    let is_large = result.nbytes() >= cast::DETACH_FROM;
    let is_small = |place: &View| place.nbytes() <= result.nbytes() / SMALL_PART;
    let (each, across) = match is_large && parts.iter().all(|(_, place)| is_small(place)) {
        true => (Threads::ONE, Threads::Several),
        false => (Threads::for_large(is_large), Threads::ONE),
    };
    let copy = |range: Range<usize>| {
        parts[range].iter().try_for_each(|(array, place)| {
            // SAFETY: `result` and `arrays` are borrowed until this function returns, and their owners
            // keep the memory alive that the views describe. `result` owns its memory and is borrowed
            // mutably, so that nobody else reads or writes it and it overlaps no array; threads copy
            // different arrays, to different places. That no other thread writes to the arrays meanwhile
            // is assumed of Python threads: see "Assumptions about Python threads" in ARCHITECTURE.md.
            unsafe { copy_to(place, array, Scaling::Clamp, each) }.map(drop)
        })
    };
    if !is_large {
        return Ok(copy(0..parts.len())?);
    }
    let bytes = result.nbytes().saturating_mul(2);
    let run = || parallel::run(across, parts.len(), bytes, copy);
    Ok(py.detach(run).into_iter().collect::<Result<_, _>>()?)
}

/// Copies an array to its place in the result, with the interpreter released if it is large, and counts what was lost.
///
/// # Safety
///
/// The place has the shape of the array, whose memory is alive. The place can be written, nobody else reads or writes it
/// meanwhile, and it does not overlap the array. That no other thread writes to the array meanwhile is assumed of Python
/// threads: see "Assumptions about Python threads" in ARCHITECTURE.md.
pub(super) unsafe fn fill_place(
    py: Python<'_>,
    place: &View,
    array: &View,
    scaling: Scaling,
) -> Result<CastReport> {
    let is_large = place.nbytes().max(array.nbytes()) >= cast::DETACH_FROM;
    // SAFETY: as the caller promises.
    let copy = || unsafe { copy_to(place, array, scaling, Threads::for_large(is_large)) };
    Ok(if is_large { py.detach(copy) } else { copy() }?)
}

/// Copies an array to its place in the result, which has its shape, and casts it if the dtypes differ.
///
/// # Safety
///
/// Every element of the array can be read and is not written meanwhile. The place can be written, nobody else reads or
/// writes it meanwhile, and it does not overlap the array. No two of its elements have the same address.
unsafe fn copy_to(
    place: &View,
    array: &View,
    scaling: Scaling,
    threads: Threads,
) -> Result<CastReport, CastError> {
    let size = place.dtype().size() as isize;
    let steps: Dims<usize> =
        place.strides().iter().map(|stride| (stride / size) as usize).collect();
    let (data, source) = (place.data(), array.elements());
    // SAFETY: the caller vouches for the elements.
    unsafe {
        if array.dtype() == place.dtype() {
            copy::gather_into(data, &steps, source, threads);
            return Ok(CastReport::default());
        }
        cast_into(data, &steps, source, Cast { dtype: place.dtype(), scaling, threads })
    }
}
