//! The parts of a framework's table that have been tried out in this process.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::framework::spec::{DType, Strides};

/// A way in which a framework takes host memory, or makes arrays of one of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By its public import, of memory in this layout.
    Public(Strides),
    /// By a faster import, of memory in this layout.
    Fast(Strides),
    /// By `from_numpy`.
    FromNumpy,
    /// By `copy`, of one of its arrays.
    Copy,
    /// By slices of one of its arrays.
    Slices,
}

impl Way {
    const COUNT: usize = 11;

    fn index(self) -> usize {
        match self {
            Way::Public(layout) => layout as usize,
            Way::Fast(layout) => 4 + layout as usize,
            Way::FromNumpy => 8,
            Way::Copy => 9,
            Way::Slices => 10,
        }
    }
}

/// The ways that have been tried out, with a bit for each dtype.
#[derive(Debug, Default)]
pub struct Tried([AtomicU32; Way::COUNT]);

impl Tried {
    /// Returns whether a way has been tried out with a dtype.
    #[inline]
    pub fn has(&self, way: Way, dtype: DType) -> bool {
        self.0[way.index()].load(Ordering::Relaxed) & (1 << dtype as u32) != 0
    }

    /// Notes that it has been.
    pub fn add(&self, way: Way, dtype: DType) {
        self.0[way.index()].fetch_or(1 << dtype as u32, Ordering::Relaxed);
    }
}

/// Private functions that were compared with public ones, with a bit for each dtype.
#[derive(Debug, Default)]
pub struct Compared {
    known: AtomicU32,
    alike: AtomicU32,
}

impl Compared {
    /// Returns whether they do the same with a dtype. The comparison is made once.
    #[inline]
    pub fn get_or_try(&self, dtype: DType, is_alike: impl FnOnce() -> bool) -> bool {
        let bit = 1 << dtype as u32;
        if self.known.load(Ordering::Acquire) & bit == 0 {
            self.note(bit, is_alike());
        }
        self.alike.load(Ordering::Relaxed) & bit != 0
    }

    #[cold]
    fn note(&self, bit: u32, is_alike: bool) {
        if is_alike {
            self.alike.fetch_or(bit, Ordering::Relaxed);
        }
        self.known.fetch_or(bit, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_is_made_once_for_each_dtype() {
        let compared = Compared::default();
        for (dtype, is_alike) in [(DType::Float32, true), (DType::Int8, false)] {
            assert_eq!(compared.get_or_try(dtype, || is_alike), is_alike);
            assert_eq!(compared.get_or_try(dtype, || unreachable!()), is_alike);
        }
        assert!(compared.get_or_try(DType::Float64, || true));
    }

    #[test]
    fn every_way_and_dtype_is_noted_by_itself() {
        let layouts = [Strides::Contiguous, Strides::Permuted, Strides::Positive, Strides::Any];
        let imports =
            layouts.into_iter().flat_map(|layout| [Way::Public(layout), Way::Fast(layout)]);
        let ways: Vec<_> = imports.chain([Way::FromNumpy, Way::Copy, Way::Slices]).collect();
        for way in &ways {
            for dtype in DType::ALL {
                let tried = Tried::default();
                tried.add(*way, *dtype);
                for other in &ways {
                    for another in DType::ALL {
                        let same = (way, dtype) == (other, another);
                        assert_eq!(tried.has(*other, *another), same, "{way:?} {other:?}");
                    }
                }
            }
        }
    }
}
