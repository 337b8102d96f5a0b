//! Casts with the loops of this crate.
//!
//! A cast is a chain of at most four loops over blocks that stay in the L1 cache. Between the types that
//! processors compute with, it is a single loop.

use std::ptr::NonNull;

use super::element::Params;
use super::kernel::Losses;
use super::pass::{Found, Goal, Pass};
use super::plan::CastPlan;
use super::{Cast, CastError, CastReport, Scaling};
use crate::cache::STREAM_MIN;
use crate::copy::ItemBytes;
use crate::dtype::DType;
use crate::parallel::{self, Threads};
use crate::walk::{Pointers, StridedArray, Walk};

/// Casts a strided array into a contiguous one in C order, in one pass over the memory, or two for
/// [`Scaling::Stretch`]. A large array is split over threads, whose number does not affect the result.
///
/// Integers saturate. Floating point numbers are rounded half to even; what is too large becomes infinity,
/// or NaN in a format without infinity. Everything but zero is true. A `bool` that is read may be any byte;
/// one that is written is 0 or 1.
///
/// # Errors
///
/// `CastError::Complex` for a complex source and a real target other than `bool`.
///
/// # Safety
///
/// The conditions of [`gather`](crate::copy::gather), with room for as many elements of the cast's dtype in
/// the target.
pub unsafe fn cast_strided(
    dst: *mut u8,
    src: StridedArray<'_>,
    cast: Cast,
) -> Result<CastReport, CastError> {
    // SAFETY: as the caller promises.
    unsafe { cast_walk(dst, src, Walk::new(src.shape, src.strides, src.dtype.size()), cast) }
}

/// Does what [`cast_strided`] does, for a target in which the elements along each axis are `steps` elements apart.
///
/// # Errors
///
/// As [`cast_strided`].
///
/// # Safety
///
/// The conditions of [`cast_strided`]. There are as many steps as axes, and no two elements have the same place in the
/// target.
pub unsafe fn cast_into(
    dst: *mut u8,
    steps: &[usize],
    src: StridedArray<'_>,
    cast: Cast,
) -> Result<CastReport, CastError> {
    let walk = Walk::to(src.shape, src.strides, steps, src.dtype.size());
    // SAFETY: as the caller promises.
    unsafe { cast_walk(dst, src, walk, cast) }
}

/// # Safety
///
/// The conditions of [`cast_strided`], for the target of the walk.
unsafe fn cast_walk(
    dst: *mut u8,
    src: StridedArray<'_>,
    walk: Option<Walk>,
    Cast { dtype, scaling, threads }: Cast,
) -> Result<CastReport, CastError> {
    let mut plan = CastPlan::new(src.dtype, dtype, scaling)?;
    let Some(walk) = walk else { return Ok(CastReport::default()) };
    let bytes = walk.len().saturating_mul(plan.src_size + plan.dst_size);
    let (index, axis) = walk.split_axis(threads.count(bytes));
    let (pointers, items) = (Pointers { dst, src: src.data }, ItemBytes::of(&src));
    let run = |plan: &CastPlan, goal: Goal| {
        parallel::run(threads, axis.len, bytes, |range| {
            let (walk, from, to) = walk.part(index, range);
            // SAFETY: the parts of a walk stay inside both arrays, and do not overlap in the target.
            unsafe {
                Pass::new(plan, items, goal).run(pointers.at(to * plan.dst_size, from), &walk)
            }
        })
        .into_iter()
        .fold(Found::default(), Found::and)
    };
    if plan.extremes.is_some() {
        let Found { min, max, .. } = run(&plan, Goal::Extremes);
        if min < max {
            plan.params = Params::stretch(min, max);
        } else {
            // There is no range that could be stretched, and a constant keeps its value.
            plan = CastPlan::new(src.dtype, dtype, Scaling::Clamp)?;
        }
    }
    plan.params.stream = walk.len().saturating_mul(plan.dst_size) >= STREAM_MIN;
    let Losses { clipped, fractions } = run(&plan, Goal::Cast).losses;
    Ok(CastReport { clipped, fractions })
}

/// The number of integers that a cast to a floating point type rounds, because the type does not have that
/// many significant bits; 0 for other casts. Nothing is read if the type has all integers of the source's.
///
/// # Errors
///
/// None.
///
/// # Safety
///
/// The conditions of [`cast_strided`], without a target.
pub unsafe fn count_rounded(
    src: StridedArray<'_>,
    dtype: DType,
    threads: Threads,
) -> Result<u64, CastError> {
    let Some(plan) = CastPlan::of_rounded(src.dtype, dtype) else { return Ok(0) };
    let Some(walk) = Walk::new(src.shape, src.strides, plan.src_size) else { return Ok(0) };
    let bytes = walk.len().saturating_mul(plan.src_size);
    let (index, axis) = walk.split_axis(threads.count(bytes));
    let items = ItemBytes::of(&src);
    let pointers = Pointers { dst: NonNull::dangling().as_ptr(), src: src.data };
    let parts = parallel::run(threads, axis.len, bytes, |range| {
        let (walk, from, _) = walk.part(index, range);
        // SAFETY: the parts of a walk stay inside the array. The elements of the target have no size, and
        // nothing is written.
        unsafe { Pass::new(&plan, items, Goal::Rounded).run(pointers.at(0, from), &walk) }
    });
    Ok(parts.into_iter().map(|found| found.rounded).sum())
}
