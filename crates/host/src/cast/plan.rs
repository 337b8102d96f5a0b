//! The loops that make up a cast.

use std::hint::black_box;
use std::mem::MaybeUninit;

use smallvec::SmallVec;

use super::element::Params;
use super::kernel::{self, Extremes, Kernel, Losses, Rounded};
use super::{CastError, Scaling};
use crate::dtype::{DType, Kind};
use crate::walk::Pointers;

/// The elements of a block. Two blocks fit in the L1 cache, except of the largest elements.
pub(super) const BLOCK: usize = 2048;
pub(super) const MAX_ITEM_SIZE: usize = 16;

/// Memory for a block of elements of any type.
#[repr(align(64))]
pub(super) struct Block(MaybeUninit<[u8; BLOCK * MAX_ITEM_SIZE]>);

impl Block {
    pub fn new() -> Block {
        Block(MaybeUninit::uninit())
    }

    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

/// The elements that are cast again, rounded once, if one of them may have another result.
const AGAIN: usize = 256;

/// The way to a small float by one rounding. It is slower than by a cast to `f32`, which is the same for all numbers but those
/// that become the middle of two.
#[derive(Clone, Copy)]
pub(super) struct Exact {
    /// The search for numbers that are no `f32`.
    rounded: Rounded,
    /// The first step.
    odd: Kernel,
}

impl Exact {
    /// Returns whether one of the elements may have another result, given what was counted in their cast.
    ///
    /// # Safety
    ///
    /// The conditions of [`Rounded`].
    unsafe fn is_needed(self, lost: Losses, src: *const u8, len: usize) -> bool {
        // What such a thread makes zero may be a number of bfloat16.
        let flushes_subnormal = || black_box(f32::MIN_POSITIVE) * 0.5 == 0.0;
        // SAFETY: as the caller promises. An `f32` has fewer bits than any type with this search.
        (lost.fractions > 0 || flushes_subnormal())
            && unsafe { (self.rounded)(src, len, f32::MANTISSA_DIGITS) > 0 }
    }
}

/// The loops that make up a cast, which run one after the other on each block.
pub(super) struct CastPlan {
    pub steps: SmallVec<[Kernel; 4]>,
    /// The search for the extremes that [`Scaling::Stretch`] needs, and the first step if that decodes its source.
    pub extremes: Option<Extremes>,
    pub decode: Option<Kernel>,
    /// What a cast needs whose two steps round twice.
    pub exact: Option<Exact>,
    /// The search for integers with more significant bits than this.
    pub rounded: Option<(Rounded, u32)>,
    pub params: Params,
    pub src_size: usize,
    pub dst_size: usize,
}

impl CastPlan {
    pub fn new(src: DType, dst: DType, scaling: Scaling) -> Result<CastPlan, CastError> {
        let mut plan = CastPlan::empty(src.size(), dst.size());
        plan.add_steps(src, dst, scaling).ok_or(CastError::Complex { from: src, to: dst })?;
        Ok(plan)
    }

    /// A plan that writes nothing, and finds integers that a type of floats does not have; `None` if it has
    /// all of them, or if the types are others.
    pub fn of_rounded(src: DType, dst: DType) -> Option<CastPlan> {
        if !dst.is_inexact() || dst.holds(src) {
            return None;
        }
        let rounded = Some((kernel::rounded_of(src)?, dst.significand() as u32));
        Some(CastPlan { rounded, ..CastPlan::empty(src.size(), 0) })
    }

    fn empty(src_size: usize, dst_size: usize) -> CastPlan {
        CastPlan {
            steps: SmallVec::new(),
            extremes: None,
            decode: None,
            exact: None,
            rounded: None,
            params: Params::default(),
            src_size,
            dst_size,
        }
    }

    /// Adds the loops from one type to the other; `None` if there is no such cast.
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
        self.decode = kernel::decode(src);
        if let Some(decode) = self.decode {
            self.steps.push(decode);
            now = DType::Float32;
        }
        if let Some((part, interleave)) = kernel::complex(dst) {
            if now != part {
                self.steps.push(kernel::clamp(now, part)?);
            }
            self.steps.push(interleave);
        } else if let Some(encode) = kernel::encode_f32(dst) {
            let near = kernel::encode_near(dst);
            match (kernel::odd(now), near) {
                (Some(odd), Some(near)) => {
                    self.exact = kernel::rounded_to_f32(now).map(|rounded| Exact { rounded, odd });
                    self.steps.extend([kernel::clamp(now, DType::Float32)?, near]);
                }
                (Some(odd), None) => self.steps.extend([odd, encode]),
                (None, _) if now == DType::Float32 => self.steps.push(encode),
                (None, _) => self.steps.extend([kernel::clamp(now, DType::Float32)?, encode]),
            }
        } else if now != dst || now == src {
            let step = self.scaled(now, dst, scaling)?;
            self.steps.push(step);
        }
        Some(())
    }

    /// The loop between two types that processors compute with.
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

    /// Runs the steps over contiguous elements, and counts what is lost. With `stream`, the last step may bypass the
    /// caches.
    ///
    /// # Safety
    ///
    /// The conditions of [`Kernel`], with the source of the first step and the target of the last.
    pub unsafe fn run(&self, at: Pointers, len: usize, stream: bool) -> Losses {
        let params = Params { stream, ..self.params };
        match self.steps[..] {
            [] => Losses::default(),
            // SAFETY: source and target hold the elements and do not overlap.
            [step] => unsafe { step(at.dst, at.src, len, &params) },
            // SAFETY: as above.
            _ => unsafe { self.run_in_blocks(at, len, &params) },
        }
    }

    /// Runs several steps.
    ///
    /// # Safety
    ///
    /// The conditions of [`run`](Self::run).
    // Inlined, its large frame would be a cost of every cast.
    #[inline(never)]
    unsafe fn run_in_blocks(&self, at: Pointers, len: usize, params: &Params) -> Losses {
        let inner = Params { stream: false, ..self.params };
        let [first, between @ .., last] = &self.steps[..] else { return Losses::default() };
        let (mut here, mut there) = (Block::new(), Block::new());
        let (mut here, mut there) = (here.as_mut_ptr(), there.as_mut_ptr());
        let mut losses = Losses::default();
        for start in (0..len).step_by(BLOCK) {
            let count = BLOCK.min(len - start);
            // SAFETY: source and target hold the elements and do not overlap, and a block has room for its
            // elements in every type.
            unsafe {
                losses += first(here, at.src.add(start * self.src_size), count, &inner);
                for step in between {
                    losses += step(there, here, count, &inner);
                    std::mem::swap(&mut here, &mut there);
                }
                let at = Pointers {
                    dst: at.dst.add(start * self.dst_size),
                    src: at.src.add(start * self.src_size),
                };
                let lost = last(at.dst, here, count, params);
                losses += match self.exact {
                    None => lost,
                    Some(exact) if exact.is_needed(lost, at.src, count) => {
                        self.once(exact, at, here, count)
                    }
                    Some(_) => Losses { fractions: 0, ..lost },
                };
            }
        }
        losses
    }

    /// Casts a block whose elements are in `near` as `f32`, where one may have been rounded to another number than by a single
    /// rounding.
    ///
    /// # Safety
    ///
    /// The conditions of [`Kernel`], with the source of the first step and the target of the last. The block holds
    /// the elements.
    #[cold]
    unsafe fn once(&self, exact: Exact, at: Pointers, near: *mut u8, len: usize) -> Losses {
        let last = self.steps[self.steps.len() - 1];
        let params = Params { stream: false, ..self.params };
        let mut losses = Losses::default();
        for start in (0..len).step_by(AGAIN) {
            let count = AGAIN.min(len - start);
            // SAFETY: as the caller promises.
            unsafe {
                let (dst, src) =
                    (at.dst.add(start * self.dst_size), at.src.add(start * self.src_size));
                let near = near.add(start * size_of::<f32>());
                let mut lost = last(dst, near, count, &params);
                if exact.is_needed(lost, src, count) {
                    // What became infinite there was counted, and is counted again.
                    let counted = self.steps[0](near, src, count, &params).clipped;
                    (exact.odd)(near, src, count, &params);
                    lost = last(dst, near, count, &params);
                    lost.clipped -= counted;
                }
                losses.clipped += lost.clipped;
            }
        }
        losses
    }
}
