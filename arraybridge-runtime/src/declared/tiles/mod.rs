//! Calls for tiles of the first array, which the declaration's `sliced` arrays are cut with.
//!
//! A tile is read with its halo, and of the result only what the halo surrounds is kept. The tiles of one
//! array overlap then, so that each gets memory of its own: a function that writes to its argument would
//! otherwise change what its neighbours see.

mod assembly;
mod option;
mod workers;

use pyo3::prelude::*;
use smallvec::SmallVec;

use super::Declared;
use super::arguments::{ArgumentSlot, ArgumentSlots};
use super::call::Call;
use super::result::{self, ResultScope};
use super::scope;
use crate::convert::{self, Request};
use crate::framework::detect::{self, Role};
use crate::framework::device::Device;
use crate::framework::loaded;
use crate::framework::shape;
use crate::interpreter::error::{Error, Result};
use crate::interpreter::progress::Progress;
use crate::policy::StackPolicy;
use crate::slices::{self, Grid, Tile};
use assembly::Assembly;
pub use option::Tiles;

impl<'py> Call<'_, 'py> {
    /// Calls the function with the arrays of `slots`: once, or for each tile if the declaration has tiles.
    /// In the scope of a call, tiles get the dtype of the result as they come.
    ///
    /// # Errors
    ///
    /// As [`recover`](Self::recover) and [`tile_by_tile`](Self::tile_by_tile).
    pub fn called(
        &self,
        declared: &Bound<'py, Declared>,
        slots: &ArgumentSlots<'py>,
        scope: ResultScope,
    ) -> PyResult<Bound<'py, PyAny>> {
        let Some(tiles) = &self.definition.options.tiles else { return self.recover(slots, scope) };
        let policy = (scope == ResultScope::Call).then(|| result::joined_policy(self, scope));
        self.tile_by_tile(declared, slots, tiles, policy)
    }

    /// Calls the function for each tile of the first array, and puts the results together.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] when the arrays cannot be cut like this, and when the results do not fit their
    /// tiles; what the calls raise.
    fn tile_by_tile(
        &self,
        declared: &Bound<'py, Declared>,
        slots: &ArgumentSlots<'py>,
        tiles: &Tiles,
        policy: Option<StackPolicy<'_, 'py>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let grids = self.grids(slots, tiles)?;
        let lead = &grids[0];
        let mut assembly = Assembly::new(self.definition.options.join.as_ref(), lead, policy);
        let progress = Progress::start(self.py, &self.definition.name, lead.count(), "tile")?;
        let cut = |index| self.cut(slots, &grids, tiles, index);
        let mut take = |index, result| -> PyResult<()> {
            assembly.add(result, &lead.tile(index))?;
            progress.step(1)
        };
        let in_threads = tiles.workers > 1 && lead.count() > 1;
        if in_threads && self.is_on_host(slots) && !self.is_watched(slots)? {
            workers::run(self, declared, lead.count(), tiles.workers, &cut, &mut take)?;
        } else {
            for index in 0..lead.count() {
                // A function without Python frames does not look for an interrupt.
                self.py.check_signals()?;
                take(index, self.recover(&cut(index)?, ResultScope::Slice)?)?;
            }
        }
        Ok(assembly.finish(self.py, tiles.overlap())?)
    }

    /// Whether the call uses host memory only. An accelerator works on one tile after the other, and each
    /// thread would have streams of its own, which do not wait for those of the caller.
    fn is_on_host(&self, slots: &ArgumentSlots<'py>) -> bool {
        let options = &self.definition.options;
        let is_host = |device: Option<Device>| !matches!(device, Some(Device::Accelerator(_)));
        let call = scope::call_device(self.py, options.input, slots, options);
        call.is_ok_and(is_host) && slots.iter().all(|slot| !scope::is_on_accelerator(self.py, slot))
    }

    /// Whether a trace, another transformation or a gradient tape may watch what this thread does. It would not see
    /// other threads.
    fn is_watched(&self, slots: &ArgumentSlots<'py>) -> Result<bool> {
        let is_traced = |slot: &ArgumentSlot<'py>| {
            let class = detect::class_of(&slot.value);
            class.is_some_and(|class| matches!(class.role, Role::Refused(_)))
        };
        let input = self.definition.options.input;
        let loaded = loaded::load(self.py, input)?;
        let is_watching = loaded.watches() || loaded.is_transforming();
        Ok(is_watching || slots.iter().any(is_traced))
    }

    /// The arrays that are cut, with their places among the slots: the first one, and those of `sliced`.
    fn cut_slots<'a>(
        &'a self,
        slots: &'a ArgumentSlots<'py>,
    ) -> impl Iterator<Item = (usize, &'a ArgumentSlot<'py>)> {
        slots.iter().enumerate().filter(|(index, slot)| *index == 0 || self.is_sliced(slot))
    }

    /// The tiles of each array of the call that is cut, in the order of the slots.
    fn grids(&self, slots: &ArgumentSlots<'py>, tiles: &Tiles) -> Result<SmallVec<[Grid; 4]>> {
        if slots.is_empty() {
            let text = "tiles needs an array among the arguments".to_owned();
            return Err(Error::Value(text));
        }
        let mut grids: SmallVec<[Grid; 4]> = SmallVec::new();
        for (_, slot) in self.cut_slots(slots) {
            let shape = shape::of(&slot.value).ok_or_else(|| {
                Error::Value(
                    "the shape of an array is unknown; give the trace a static shape".into(),
                )
            })?;
            let axes = tiles.tiling.lengths.len();
            let grid = Grid::new(&tiles.tiling, &shape).ok_or_else(|| {
                let found = shape.len();
                Error::Value(format!(
                    "tiles are for the last {axes} axes, and the array has {found}"
                ))
            })?;
            if let Some(lead) = grids.first()
                && lead.extents() != grid.extents()
            {
                let (one, other) = (lead.extents(), grid.extents());
                return Err(Error::Value(format!(
                    "arrays that are cut together have the lengths {one:?} and {other:?} along the \
                     axes of the tiles"
                )));
            }
            grids.push(grid);
        }
        Ok(grids)
    }

    /// The arrays of the call with one tile of those that are cut.
    fn cut(
        &self,
        slots: &ArgumentSlots<'py>,
        grids: &[Grid],
        tiles: &Tiles,
        index: usize,
    ) -> Result<ArgumentSlots<'py>> {
        let mut cut = slots.clone();
        for ((at, slot), grid) in self.cut_slots(slots).zip(grids) {
            let tile = tile_of(&slot.value, &grid.tile(index), tiles.overlap())?;
            cut[at] = slot
                .with_part(tile)
                .ok_or_else(|| Error::Value("a tile of an array is not an array".to_owned()))?;
        }
        Ok(cut)
    }
}

/// The elements of a tile with its halo, in memory of their own if tiles overlap.
fn tile_of<'py>(
    array: &Bound<'py, PyAny>,
    tile: &Tile,
    overlap: bool,
) -> Result<Bound<'py, PyAny>> {
    let ranges: SmallVec<[_; 4]> = tile.iter().map(|span| (span.axis, span.read.clone())).collect();
    let part = slices::region(array, &ranges)?;
    match detect::class_of(&part) {
        Some(class) if overlap && !class.framework.immutable => {
            let request = Request { copy: Some(true), ..Request::default() };
            convert::convert_to(&part, class.framework, &request)
        }
        _ => Ok(part),
    }
}
