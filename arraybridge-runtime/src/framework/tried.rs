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
    /// By `fast_to_numpy`.
    FastToNumpy,
    /// By `fast_from_numpy`.
    FastFromNumpy,
    /// By `write` of one of its arrays.
    Write,
}

impl Way {
    const COUNT: usize = 14;

    fn index(self) -> usize {
        match self {
            Way::Public(layout) => layout as usize,
            Way::Fast(layout) => 4 + layout as usize,
            Way::FromNumpy => 8,
            Way::Copy => 9,
            Way::Slices => 10,
            Way::FastToNumpy => 11,
            Way::FastFromNumpy => 12,
            Way::Write => 13,
        }
    }
}

/// The ways that have been tried out, with a bit for each dtype.
#[derive(Debug, Default)]
pub struct Tried {
    passed: [AtomicU32; Way::COUNT],
    failed: [AtomicU32; Way::COUNT],
}

impl Tried {
    /// Returns whether a way has been tried out with a dtype, and the table was right.
    #[inline]
    pub fn has(&self, way: Way, dtype: DType) -> bool {
        is_set(&self.passed[way.index()], dtype)
    }

    /// Notes that it has been.
    pub fn add(&self, way: Way, dtype: DType) {
        set(&self.passed[way.index()], dtype);
    }

    /// Returns whether a way does with a dtype what a slower one does. The comparison is made once.
    #[inline]
    pub fn is_alike(&self, way: Way, dtype: DType, compare: impl FnOnce() -> bool) -> bool {
        let failed = &self.failed[way.index()];
        if !self.has(way, dtype) && !is_set(failed, dtype) {
            set(if compare() { &self.passed[way.index()] } else { failed }, dtype);
        }
        self.has(way, dtype)
    }
}

fn is_set(dtypes: &AtomicU32, dtype: DType) -> bool {
    dtypes.load(Ordering::Relaxed) & (1 << dtype as u32) != 0
}

fn set(dtypes: &AtomicU32, dtype: DType) {
    dtypes.fetch_or(1 << dtype as u32, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_is_made_once_for_each_dtype() {
        let tried = Tried::default();
        for (dtype, is_alike) in [(DType::Float32, true), (DType::Int8, false)] {
            assert_eq!(tried.is_alike(Way::Write, dtype, || is_alike), is_alike);
            assert_eq!(tried.is_alike(Way::Write, dtype, || unreachable!()), is_alike);
        }
        assert!(tried.is_alike(Way::FastToNumpy, DType::Int8, || true));
    }

    #[test]
    fn every_way_has_a_place_of_its_own() {
        use Way::*;
        let layouts = [Strides::Contiguous, Strides::Permuted, Strides::Positive, Strides::Any];
        let imports = layouts.map(Public).into_iter().chain(layouts.map(Fast));
        let others = [FromNumpy, Copy, Slices, FastToNumpy, FastFromNumpy, Write];
        let places: Vec<_> = imports.chain(others).map(Way::index).collect();
        assert_eq!(places, Vec::from_iter(0..Way::COUNT));
    }
}
