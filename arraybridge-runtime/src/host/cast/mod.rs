//! Exact casts between all element types.
//!
//! A cast is a chain of at most four loops over blocks that stay in the first cache; the casts
//! between the types that processors compute with are a single loop.

mod element;
mod kernel;
mod small;
#[cfg(test)]
mod tests;

use std::mem::MaybeUninit;

use smallvec::SmallVec;

use self::element::Params;
use self::kernel::{Extremes, Kernel};
use super::copy::{self, Pointers};
use super::parallel;
use super::walk::{Plane, Walk};
use crate::host::dtype::{DType, Kind};

/// How floating point numbers become integers. Other casts do not depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scaling {
    /// Round half to even and saturate; NaN is 0.
    #[default]
    Clamp,
    /// The values are in [0, 1], or in [-1, 1] for a signed integer: multiply by the integer's
    /// largest value first, then as `Clamp`. The product is exact before it is rounded.
    Unit,
    /// The finite minimum and maximum of the array become the integer's smallest and largest value:
    /// `(x - min) / (max - min) * (MAX - MIN)`, computed in `f64` and rounded half to even, plus
    /// `MIN`. The finite values of a constant array become 0, infinities saturate, NaN is 0.
    Stretch,
}

/// What a cast did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CastReport {
    /// How many values the integer could not hold: rounded and still out of range, or NaN.
    /// Infinities and NaN for [`Scaling::Stretch`].
    pub clipped: u64,
}

/// A cast that would lose more than precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a {from} array cannot become {to}: the imaginary part would be lost; take the real part first"
)]
pub struct CastError {
    /// The element type of the source.
    pub from: DType,
    /// The element type that was asked for.
    pub to: DType,
}

/// A strided array to cast from, in host memory.
#[derive(Clone, Copy, Debug)]
pub struct Strided<'a> {
    /// The element at index zero; no alignment is assumed.
    pub data: *const u8,
    /// The length of each axis.
    pub shape: &'a [usize],
    /// The step of each axis in bytes.
    pub strides: &'a [isize],
    /// The element type, in native byte order unless `swap` is given.
    pub dtype: DType,
    /// The unit in bytes whose bytes are reversed, for a byte-swapped array.
    pub swap: Option<usize>,
}

/// Casts `len` elements of a contiguous array into another one. A large array is split over at most
/// `threads` threads; the result never depends on their number. A `bool` that is read may be any
/// byte, one that is written is 0 or 1.
///
/// Integers saturate, floating point numbers round half to even, and what is too large for a float
/// is infinity, or NaN in a format without one. Anything but zero is true.
///
/// # Errors
///
/// [`CastError`] for a complex array and a real target other than `bool`.
///
/// # Safety
///
/// `src` holds `len` elements that nobody writes meanwhile, `dst` has room for as many, and the two
/// do not overlap. Neither needs to be aligned.
pub unsafe fn cast(
    dst: *mut u8,
    dst_dtype: DType,
    src: *const u8,
    src_dtype: DType,
    len: usize,
    scaling: Scaling,
    threads: usize,
) -> Result<CastReport, CastError> {
    let shape = [len];
    let strides = [src_dtype.size() as isize];
    let src = Strided { data: src, shape: &shape, strides: &strides, dtype: src_dtype, swap: None };
    // SAFETY: the caller's promise, as the one axis is contiguous.
    unsafe { cast_strided(dst, dst_dtype, src, scaling, threads) }
}

/// As [`cast`], from a strided array into a contiguous one in C order, in one pass over the memory (two
/// for [`Scaling::Stretch`]).
///
/// # Errors
///
/// As for [`cast`].
///
/// # Safety
///
/// As for [`cast`] and [`copy::gather`].
pub unsafe fn cast_strided(
    dst: *mut u8,
    dst_dtype: DType,
    src: Strided<'_>,
    scaling: Scaling,
    threads: usize,
) -> Result<CastReport, CastError> {
    let mut plan = Plan::new(src.dtype, dst_dtype, scaling)?;
    let Some(walk) = Walk::new(src.shape, src.strides, plan.src_size) else {
        return Ok(CastReport::default());
    };
    let bytes = walk.len().saturating_mul(plan.src_size + plan.dst_size);
    let threads = parallel::worth(threads, bytes);
    let (index, axis) = walk.split_axis(threads);
    let pointers = Pointers { dst, src: src.data };
    let swap = src.swap.filter(|unit| *unit > 1);
    let parts = |plan: &Plan, work: Work| {
        parallel::split(axis.len, threads, 1, |range| {
            let (walk, from, to) = walk.part(index, range);
            let Pointers { dst, src } = pointers.get();
            let mut part = Part { plan, swap, work, total: Total::default() };
            // SAFETY: the parts of the walk are apart in the target, and each stays inside both.
            unsafe { part.run(dst.add(to * plan.dst_size), src.offset(from), &walk) };
            part.total
        })
        .into_iter()
        .fold(Total::default(), Total::and)
    };
    if plan.extremes.is_some() {
        let Total { min, max, .. } = parts(&plan, Work::FindEnds);
        plan.params = Params::stretch(min, max);
    }
    plan.params.stream = walk.len().saturating_mul(plan.dst_size) >= STREAM_MIN;
    Ok(CastReport { clipped: parts(&plan, Work::Cast).clipped })
}

/// From this size of the result on, it would push everything else out of the caches anyway.
const STREAM_MIN: usize = 16 << 20;

/// Elements of a block: two of them fit in the first cache, in all but their longest forms.
const BLOCK: usize = 2048;
const ITEM_MAX: usize = 16;

#[repr(align(64))]
struct Block(MaybeUninit<[u8; BLOCK * ITEM_MAX]>);

impl Block {
    fn new() -> Block {
        Block(MaybeUninit::uninit())
    }

    fn as_mut_ptr(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

/// The loops of a cast.
struct Plan {
    steps: SmallVec<[Kernel; 4]>,
    /// For a stretch: the search for the ends, behind the first `decoded` steps.
    extremes: Option<Extremes>,
    decoded: usize,
    params: Params,
    src_size: usize,
    dst_size: usize,
}

impl Plan {
    fn new(src: DType, dst: DType, scaling: Scaling) -> Result<Plan, CastError> {
        let mut plan = Plan {
            steps: SmallVec::new(),
            extremes: None,
            decoded: 0,
            params: Params::default(),
            src_size: src.size(),
            dst_size: dst.size(),
        };
        plan.add_steps(src, dst, scaling).ok_or(CastError { from: src, to: dst })?;
        Ok(plan)
    }

    /// `None` if there is no such cast.
    fn add_steps(&mut self, src: DType, dst: DType, scaling: Scaling) -> Option<()> {
        if src == dst && src != DType::Bool {
            self.steps.push(kernel::copy(src.size())?);
            return Some(());
        }
        if src.kind() == Kind::Complex {
            self.steps.push(kernel::from_complex(src, dst)?);
            return Some(());
        }
        let mut now = src;
        if let Some(decode) = kernel::decode(src) {
            self.steps.push(decode);
            now = DType::Float32;
        }
        self.decoded = self.steps.len();
        if let Some((part, interleave)) = kernel::complex(dst) {
            if now != part {
                self.steps.push(kernel::clamp(now, part)?);
            }
            self.steps.push(interleave);
        } else if let Some(encode) = kernel::encode_f32(dst).filter(|_| now == DType::Float32) {
            self.steps.push(encode);
        } else if let Some(encode) = kernel::encode(dst) {
            self.steps.extend([kernel::odd(now)?, encode]);
        } else if now != dst || now == src {
            let step = self.scaled(now, dst, scaling)?;
            self.steps.push(step);
        }
        Some(())
    }

    /// The loop between two types that are computed with directly.
    fn scaled(&mut self, src: DType, dst: DType, scaling: Scaling) -> Option<Kernel> {
        let special = match scaling {
            Scaling::Clamp => None,
            Scaling::Unit => kernel::unit(src, dst),
            Scaling::Stretch => kernel::stretch(src, dst),
        };
        if special.is_some() && scaling == Scaling::Stretch {
            self.extremes = kernel::extremes_of(src);
        }
        special.or_else(|| kernel::clamp(src, dst))
    }

    /// Runs some of the steps over contiguous elements and gives the clipped ones. `stream` says that
    /// the last step may write past the caches.
    ///
    /// # Safety
    ///
    /// As for [`Kernel`], by the types before the first and behind the last of the steps.
    unsafe fn run(
        &self,
        steps: &[Kernel],
        dst: (*mut u8, usize),
        src: *const u8,
        len: usize,
        stream: bool,
    ) -> u64 {
        let inner = Params { stream: false, ..self.params };
        let params = Params { stream, ..self.params };
        let [first, between @ .., last] = steps else {
            // SAFETY: the caller's promise.
            return steps.iter().map(|step| unsafe { step(dst.0, src, len, &params) }).sum();
        };
        let (mut here, mut there) = (Block::new(), Block::new());
        let (mut here, mut there) = (here.as_mut_ptr(), there.as_mut_ptr());
        let mut clipped = 0;
        for start in (0..len).step_by(BLOCK) {
            let count = BLOCK.min(len - start);
            // SAFETY: the caller's promise; a block has room for its elements in every type.
            unsafe {
                clipped += first(here, src.add(start * self.src_size), count, &inner);
                for step in between {
                    clipped += step(there, here, count, &inner);
                    std::mem::swap(&mut here, &mut there);
                }
                clipped += last(dst.0.add(start * dst.1), here, count, &params);
            }
        }
        clipped
    }
}

/// What a pass over the source is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    FindEnds,
    Cast,
}

/// What the parts of a pass found.
struct Total {
    clipped: u64,
    min: f64,
    max: f64,
}

impl Default for Total {
    fn default() -> Total {
        Total { clipped: 0, min: f64::INFINITY, max: f64::NEG_INFINITY }
    }
}

impl Total {
    fn and(self, other: Total) -> Total {
        Total {
            clipped: self.clipped + other.clipped,
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }
}

/// One thread's part of a pass.
struct Part<'a> {
    plan: &'a Plan,
    swap: Option<usize>,
    work: Work,
    total: Total,
}

impl Part<'_> {
    /// # Safety
    ///
    /// As for [`cast_strided`].
    unsafe fn run(&mut self, dst: *mut u8, src: *const u8, walk: &Walk) {
        let (src_size, dst_size) = (self.plan.src_size, self.plan.dst_size);
        walk.planes(|plane, from, to| {
            // SAFETY: the offsets of a walk stay inside both arrays.
            unsafe {
                let (dst, src) = (dst.add(to * dst_size), src.offset(from));
                // A short row is not worth a call of its own.
                let direct = plane.cols.src == src_size as isize && self.swap.is_none();
                if direct && (plane.cols.len >= BLOCK / 16 || plane.rows.len == 1) {
                    self.rows(dst, src, plane);
                } else {
                    self.tiles(dst, src, plane);
                }
            }
        });
    }

    /// Rows that are contiguous in the source.
    ///
    /// # Safety
    ///
    /// As for [`cast_strided`].
    unsafe fn rows(&mut self, dst: *mut u8, src: *const u8, plane: &Plane) {
        for row in 0..plane.rows.len {
            // SAFETY: the row lies inside both arrays.
            unsafe {
                let dst = dst.add(row * plane.rows.dst * self.plan.dst_size);
                let src = src.offset(row as isize * plane.rows.src);
                self.run_of(dst, src, plane.cols.len, self.plan.params.stream);
            }
        }
    }

    /// Through a contiguous block of the source, and one of the target where its rows are apart.
    ///
    /// # Safety
    ///
    /// As for [`cast_strided`].
    unsafe fn tiles(&mut self, dst: *mut u8, src: *const u8, plane: &Plane) {
        let (src_size, dst_size) = (self.plan.src_size, self.plan.dst_size);
        let cols = if plane.tiled { 64 } else { plane.cols.len.clamp(1, BLOCK) };
        let (mut block, mut done) = (Block::new(), Block::new());
        let (block, done) = (block.as_mut_ptr(), done.as_mut_ptr());
        plane.tiles((BLOCK / cols, cols), 0, 0, |tile, from, to| {
            let (rows, cols) = (tile.rows.len, tile.cols.len);
            let mut contiguous = *tile;
            contiguous.rows.dst = cols;
            // SAFETY: the tile lies inside both arrays, and a block has room for its elements.
            unsafe {
                copy::copy_plane(block, src.offset(from), &contiguous, src_size, self.swap);
                let dst = dst.add(to * dst_size);
                if rows == 1 || tile.rows.dst == cols {
                    self.run_of(dst, block, rows * cols, false);
                    return;
                }
                self.run_of(done, block, rows * cols, false);
                if self.work == Work::Cast {
                    for row in 0..rows {
                        let src = done.add(row * cols * dst_size);
                        let dst = dst.add(row * tile.rows.dst * dst_size);
                        dst.copy_from_nonoverlapping(src, cols * dst_size);
                    }
                }
            }
        });
    }

    /// # Safety
    ///
    /// As for [`Kernel`].
    unsafe fn run_of(&mut self, dst: *mut u8, src: *const u8, len: usize, stream: bool) {
        let plan = self.plan;
        // SAFETY: the caller's promise.
        unsafe {
            match (self.work, plan.extremes) {
                (Work::Cast, _) => {
                    let dst = (dst, plan.dst_size);
                    self.total.clipped += plan.run(&plan.steps, dst, src, len, stream);
                }
                (Work::FindEnds, Some(extremes)) => self.find_ends(extremes, src, len),
                (Work::FindEnds, None) => {}
            }
        }
    }

    /// # Safety
    ///
    /// As for [`Extremes`], by the type of the source.
    unsafe fn find_ends(&mut self, extremes: Extremes, src: *const u8, len: usize) {
        let plan = self.plan;
        let decode = &plan.steps[..plan.decoded];
        let mut block = Block::new();
        let block = block.as_mut_ptr();
        let stride = if decode.is_empty() { len } else { BLOCK };
        for start in (0..len).step_by(stride.max(1)) {
            let count = stride.min(len - start);
            // SAFETY: the caller's promise; the block has room for its decoded elements.
            let (min, max) = unsafe {
                let mut src = src.add(start * plan.src_size);
                if !decode.is_empty() {
                    plan.run(decode, (block, size_of::<f32>()), src, count, false);
                    src = block;
                }
                extremes(src, count)
            };
            self.total.min = self.total.min.min(min);
            self.total.max = self.total.max.max(max);
        }
    }
}
