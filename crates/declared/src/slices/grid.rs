//! Tiles: where they begin and end, and what of each is kept.

use std::ops::Range;

use pyo3::prelude::*;
use pyo3::types::PySlice;
use smallvec::SmallVec;

use arraybridge_runtime::interpreter::tuples;

/// The way in which arrays are cut into tiles, for each of their last axes.
#[derive(Clone, Debug)]
pub struct Tiling {
    /// The length of a tile, at least 1; `None` leaves the axis whole.
    pub lengths: Vec<Option<usize>>,
    /// The number of further elements that a tile has on each side, where the array has them.
    pub halo: Vec<usize>,
    /// True if tiles get what they lack beyond the ends of the array, so that all of them have one shape.
    pub pads: bool,
}

/// The tiles of an array of one shape, in C order.
#[derive(Clone, Debug)]
pub struct Grid {
    axes: SmallVec<[CutAxis; 4]>,
}

/// An axis that is cut.
#[derive(Clone, Copy, Debug)]
struct CutAxis {
    index: usize,
    extent: usize,
    length: usize,
    halo: usize,
    pads: bool,
}

impl CutAxis {
    /// The number of tiles along the axis. An axis without elements has one, without elements.
    fn count(&self) -> usize {
        self.extent.div_ceil(self.length).max(1)
    }
}

/// The span of a tile along one axis, in positions of the array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The index of the axis.
    pub axis: usize,
    /// The elements with the halo.
    pub read: Range<usize>,
    /// The elements without the halo. Over all tiles, each position is kept once.
    pub kept: Range<usize>,
    /// How many elements are added before and after those that are read.
    pub added: (usize, usize),
}

impl Span {
    /// Elements without a halo.
    pub fn plain(axis: usize, range: Range<usize>) -> Span {
        Span { axis, read: range.clone(), kept: range, added: (0, 0) }
    }

    /// The length of the tile.
    #[expect(clippy::len_without_is_empty, reason = "no span is empty")]
    pub fn len(&self) -> usize {
        self.added.0 + self.read.len() + self.added.1
    }

    /// Returns whether the whole tile is kept.
    pub fn is_kept(&self) -> bool {
        self.kept == self.read && self.added == (0, 0)
    }

    /// The kept elements in positions of the tile.
    pub fn trim(&self) -> Range<usize> {
        let start = self.added.0 + self.kept.start - self.read.start;
        start..start + self.kept.len()
    }
}

/// The index of a part of a tile in an array with so many axes.
pub fn index_of<'py>(
    py: Python<'py>,
    axes: usize,
    tile: &[Span],
    range: impl Fn(&Span) -> Range<usize>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let mut index: Vec<_> = (0..axes).map(|_| PySlice::full(py).into_any()).collect();
    for span in tile {
        index[span.axis] = tuples::slice(py, range(span))?;
    }
    Ok(index)
}

/// A tile: a span for each axis that is cut.
pub type Tile = SmallVec<[Span; 4]>;

impl Grid {
    /// The tiles of an array of this shape; `None` if it has fewer axes than the tiles.
    pub fn new(tiling: &Tiling, shape: &[usize]) -> Option<Grid> {
        let before = shape.len().checked_sub(tiling.lengths.len())?;
        let cut = |(at, length): (usize, &Option<usize>)| {
            let (index, halo) = (before + at, tiling.halo[at]);
            let pads = tiling.pads;
            length.map(|length| CutAxis { index, extent: shape[index], length, halo, pads })
        };
        Some(Grid { axes: tiling.lengths.iter().enumerate().filter_map(cut).collect() })
    }

    /// The number of tiles.
    pub fn count(&self) -> usize {
        self.axes.iter().map(CutAxis::count).product()
    }

    /// The axes that are cut, with the number of tiles along each.
    pub fn counts(&self) -> impl DoubleEndedIterator<Item = (usize, usize)> {
        self.axes.iter().map(|axis| (axis.index, axis.count()))
    }

    /// The lengths of the array along the axes that are cut.
    pub fn extents(&self) -> SmallVec<[usize; 4]> {
        self.axes.iter().map(|axis| axis.extent).collect()
    }

    /// The axes that are cut, with the length and the halo of a tile along each.
    pub fn cuts(&self) -> Vec<(usize, usize, usize)> {
        self.axes.iter().map(|axis| (axis.index, axis.length, axis.halo)).collect()
    }

    /// The tile of an index below [`count`](Self::count).
    pub fn tile(&self, index: usize) -> Tile {
        let mut rest = index;
        let mut tile: Tile = self
            .axes
            .iter()
            .rev()
            .map(|axis| {
                let start = rest % axis.count() * axis.length;
                rest /= axis.count();
                let stop = (start + axis.length).min(axis.extent);
                let read = start.saturating_sub(axis.halo)
                    ..stop.saturating_add(axis.halo).min(axis.extent);
                let after = start.saturating_add(axis.length).saturating_add(axis.halo);
                let added = match axis.pads {
                    true => (axis.halo - (start - read.start), after - read.end),
                    false => (0, 0),
                };
                Span { axis: axis.index, read, kept: start..stop, added }
            })
            .collect();
        tile.reverse();
        tile
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_position_is_kept_once(
            shape in proptest::collection::vec(0_usize..9, 3),
            lengths in proptest::collection::vec(proptest::option::of(1_usize..6), 1..4),
            halo in proptest::collection::vec(0_usize..12, 3),
            pads: bool,
        ) {
            let tiling = Tiling { halo: halo[..lengths.len()].to_vec(), lengths, pads };
            let grid = Grid::new(&tiling, &shape).unwrap();
            let mut kept = vec![0_u32; shape.iter().product()];
            for tile in (0..grid.count()).map(|index| grid.tile(index)) {
                for (position, count) in kept.iter_mut().enumerate() {
                    let (x, y) = (position % shape[2], position / shape[2]);
                    let at = [y / shape[1], y % shape[1], x];
                    *count += u32::from(tile.iter().all(|span| span.kept.contains(&at[span.axis])));
                }
                for span in &tile {
                    prop_assert!(span.read.start <= span.kept.start && span.kept.end <= span.read.end);
                    prop_assert!(span.read.end <= shape[span.axis]);
                    prop_assert!(span.trim().end <= span.len());
                    let at = span.axis - (shape.len() - tiling.lengths.len());
                    let one = tiling.lengths[at].unwrap() + 2 * tiling.halo[at];
                    prop_assert!(!pads || span.len() == one);
                }
            }
            prop_assert!(kept.iter().all(|count| *count == 1));
        }
    }
}
