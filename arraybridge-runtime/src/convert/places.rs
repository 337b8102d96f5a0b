//! The places of arrays' elements in memory, on any device.

use dlpark::ffi::DLDevice;

use crate::framework::device;
use arraybridge_host::overlap::{self, Strided};
use arraybridge_tensor::memory::view::{Dims, View};

/// The places of an array's elements. Their values are not read, so nobody waits for them.
#[derive(Debug)]
pub struct Places {
    pub(super) address: usize,
    pub(super) shape: Dims<usize>,
    pub(super) strides: Dims<isize>,
    /// The bytes of an element.
    pub(super) size: usize,
    /// The device whose addresses these are. `None` for CUDA's devices and the host, which share theirs.
    pub(super) space: Option<DLDevice>,
}

impl From<Strided<'_>> for Places {
    fn from(Strided { address, shape, strides, size }: Strided<'_>) -> Places {
        Places { address, shape: shape.into(), strides: strides.into(), size, space: None }
    }
}

impl From<&View> for Places {
    fn from(view: &View) -> Places {
        let is_shared = view.is_on_host() || device::is_cuda(view.device());
        let (shape, strides) = (view.shape().into(), view.strides().into());
        let (address, size) = (view.data() as usize, view.dtype().size());
        Places { address, shape, strides, size, space: (!is_shared).then(|| view.device()) }
    }
}

impl Places {
    fn strided(&self) -> Strided<'_> {
        let Places { address, ref shape, ref strides, size, .. } = *self;
        Strided { address, shape, strides, size }
    }

    /// Returns whether two arrays have a byte in common, or may have: some are too hard to tell.
    pub fn overlap(&self, other: &Places) -> bool {
        self.space == other.space
            && overlap::overlap(self.strided(), other.strided()).unwrap_or(true)
    }

    /// The first array of some that are written to or not, in the order of their addresses, which is written to and
    /// overlaps another one, and that one; or the other way round, if only the other one is written to.
    pub fn find_overlap(arrays: &[(Places, bool)]) -> Option<[usize; 2]> {
        Places::find_pair(arrays, Places::overlap)
    }

    /// Does what [`find_overlap`](Self::find_overlap) does. Only arrays whose ranges meet are compared: in the order of
    /// their addresses, each one with those before that have not ended.
    fn find_pair(
        arrays: &[(Places, bool)],
        mut overlap: impl FnMut(&Places, &Places) -> bool,
    ) -> Option<[usize; 2]> {
        let all = (0, usize::MAX);
        let ranges =
            arrays.iter().enumerate().filter(|(_, (places, _))| !places.shape.contains(&0));
        let ranges = ranges.map(|(at, (places, _))| (places.strided().range().unwrap_or(all), at));
        let mut ranges: Vec<_> = ranges.collect();
        ranges.sort_unstable();
        let (mut read, mut written) = (Vec::new(), Vec::new());
        for ((low, end), at) in ranges {
            let (places, is_written) = &arrays[at];
            let mut meets = |before: &mut Vec<(usize, usize)>| {
                before.retain(|(end, _)| *end > low);
                before.iter().map(|(_, at)| *at).find(|other| overlap(places, &arrays[*other].0))
            };
            let mut found = meets(&mut written);
            if found.is_none() && *is_written {
                found = meets(&mut read);
            }
            if let Some(other) = found {
                return Some(if *is_written { [at, other] } else { [other, at] });
            }
            if *is_written { &mut written } else { &mut read }.push((end, at));
        }
        None
    }

    /// Returns whether elements may share memory with each other.
    pub fn overlap_themselves(&self) -> bool {
        if self.shape.contains(&0) {
            return false;
        }
        let axes = self.strides.iter().map(|stride| stride.unsigned_abs()).zip(&self.shape);
        let mut axes: Vec<_> = axes.filter(|(_, length)| **length > 1).collect();
        axes.sort_unstable();
        let mut end = self.size;
        axes.iter().any(|(stride, length)| {
            let is_inside = *stride < end;
            end = end.saturating_add(stride.saturating_mul(**length - 1));
            is_inside
        })
    }

    /// Returns whether elements with the same index are at the same place, as far as both arrays have axes.
    pub fn begin_alike(&self, other: &Places) -> bool {
        let mut axes =
            self.shape.iter().zip(&self.strides).zip(other.shape.iter().zip(&other.strides));
        self.address == other.address
            && axes.all(|((length, one), (other_length, other))| {
                one == other || (*length <= 1 && *other_length <= 1)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(address: usize, shape: &[usize], strides: &[isize]) -> Places {
        Strided { address, shape, strides, size: 4 }.into()
    }

    #[test]
    fn the_addresses_of_another_kind_of_device_are_others() {
        let (one, other) = (places(64, &[4], &[4]), places(72, &[4], &[4]));
        let elsewhere = Places { space: Some(DLDevice::CPU), ..places(72, &[4], &[4]) };
        assert!(one.overlap(&other) && !one.overlap(&elsewhere));
    }

    #[test]
    fn only_arrays_whose_ranges_meet_are_compared() {
        let row = |index: usize| places(1 << 20 | (index * 16), &[4], &[4]);
        let compared = |arrays: &[(Places, bool)]| {
            let mut count = 0;
            let found = Places::find_pair(arrays, |one, other| {
                count += 1;
                one.overlap(other)
            });
            (found, count)
        };
        let mut rows: Vec<_> = (0..1000).rev().map(|index| (row(index), index % 3 > 0)).collect();
        assert_eq!(compared(&rows), (None, 0));
        // Arrays that are only read may overlap.
        rows.extend((0..1000).map(|_| (places(1 << 19, &[4], &[4]), false)));
        assert_eq!(compared(&rows), (None, 0));
        rows.push((places((1 << 20) + 24, &[4], &[4]), false));
        assert_eq!(Places::find_overlap(&rows), Some([998, 2000]));
        let columns = |index: usize| (places(64 + 4 * index, &[8], &[16]), true);
        let (even, odd) = (columns(0), columns(1));
        let none = (places(64, &[0], &[4]), true);
        assert_eq!(compared(&[even, none, odd]), (None, 1));
        assert_eq!(Places::find_overlap(&[(row(1), true), (row(1), false)]), Some([0, 1]));
        assert_eq!(Places::find_overlap(&[(row(1), false), (row(1), true)]), Some([1, 0]));
    }

    #[test]
    fn elements_overlap_themselves_where_a_stride_is_inside_of_what_is_before() {
        for (shape, strides, expected) in [
            (&[3, 4][..], &[16, 4][..], false),
            (&[3, 4], &[-16, -4], false),
            (&[3, 4], &[8, 4], true),
            (&[3, 4], &[0, 4], true),
            (&[1, 4], &[0, 4], false),
            (&[3, 0], &[0, 0], false),
        ] {
            let found = places(1 << 20, shape, strides).overlap_themselves();
            assert_eq!(found, expected, "{shape:?} {strides:?}");
        }
    }

    #[test]
    fn arrays_begin_alike_if_each_element_is_at_its_own_place() {
        let one = places(64, &[3, 4], &[16, 4]);
        assert!(one.begin_alike(&places(64, &[3, 4], &[16, 4])));
        assert!(one.begin_alike(&places(64, &[3], &[16])));
        assert!(!one.begin_alike(&places(64, &[3, 4], &[4, 16])));
        assert!(!one.begin_alike(&places(68, &[3, 4], &[16, 4])));
        assert!(places(64, &[1], &[4]).begin_alike(&places(64, &[1], &[16])));
    }
}
