//! Calls for tiles of the first array, which the declaration's `sliced` arrays are cut with.
//!
//! A tile is read with its halo, and of the result only what the halo surrounds is kept. The tiles of one
//! array overlap then, so that each gets memory of its own: a function that writes to its argument would
//! otherwise change what its neighbours see.

mod assembly;
mod option;
mod workers;

use std::borrow::Cow;
use std::cell::Cell;

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use smallvec::SmallVec;

use super::arguments::{self, ArgumentSlot, ArgumentSlots};
use super::call::Call;
use super::result::{self, ResultScope};
use super::scope;
use crate::policy::StackPolicy;
use crate::slices::{self, Grid, Sink, Span, Tile, Tiling, index_of, lazy};
use arraybridge_host::layout::contiguous_bytes;
use arraybridge_runtime::convert::{self, Request};
use arraybridge_runtime::framework::detect::{self, Role};
use arraybridge_runtime::framework::device::Device;
use arraybridge_runtime::framework::loaded;
use arraybridge_runtime::framework::shape;
use arraybridge_runtime::interpreter::error::{Error, Result, add_note, attempt};
use arraybridge_runtime::interpreter::progress::Progress;
use assembly::Assembly;
pub use option::Tiles;

impl<'py> Call<'_, 'py> {
    /// Calls the function with the arrays of `slots`: once, or for each tile if the declaration has tiles.
    /// In the scope of a call, tiles get the dtype of the result as they come.
    pub fn called(
        &self,
        slots: &ArgumentSlots<'py>,
        scope: ResultScope,
    ) -> PyResult<Bound<'py, PyAny>> {
        let Some(tiles) = &self.definition.options.tiles else {
            if slots.iter().any(|slot| slot.lazy().is_some()) {
                let slots = slots.iter().map(ArgumentSlot::loaded).collect::<Result<_>>()?;
                return self.recover(&slots, scope);
            }
            return self.recover(slots, scope);
        };
        let policy = (scope == ResultScope::Call).then(|| result::joined_policy(self, scope));
        self.tile_by_tile(slots, tiles, policy)
    }

    /// Calls the function for each tile of the first array, and puts the results together.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] when the arrays cannot be cut like this, and when the results do not fit their
    /// tiles; what the calls raise.
    fn tile_by_tile(
        &self,
        slots: &ArgumentSlots<'py>,
        tiles: &Tiles,
        policy: Option<StackPolicy<'_, 'py>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.check_writes(slots, tiles)?;
        self.expect_apart(slots)?;
        let sink = self.sink.clone().filter(|_| policy.is_some());
        if tiles.are_chunks() && policy.is_none() {
            let text = "tiles=\"chunks\" follows the chunks of whole arrays; with slice_by_slice give the lengths of a \
                        tile, such as (512, 512)";
            return Err(Error::Value(text.to_owned()).into());
        }
        let tiling = match (tiles.are_chunks(), slots.first()) {
            (true, Some(lead)) => {
                let read = lead.lazy().unwrap_or(&lead.value);
                Cow::Owned(tiles.by_chunks(lazy::chunks(read, sink.as_ref().map(Sink::out))?)?)
            }
            _ => Cow::Borrowed(&tiles.tiling),
        };
        let grids = self.grids(slots, &tiling)?;
        let slots = &self.banded(slots, &grids)?;
        let lead = &grids[0];
        let how = self.definition.options.join.as_ref();
        let mut assembly = Assembly::new(how, lead, policy, sink);
        let about_result = |error: Error| error.in_place(&self.definition.name, "the result");
        let progress = Progress::start(self.py, &self.definition.name, lead.count(), "tile")?;
        let bytes = BytesDone::of(&slots[0], lead)?;
        let named = |index, error| {
            let (tile, key) = (lead.tile(index), &slots[0].key);
            let place = place(&tile, shape::ndim(&slots[0].value).unwrap_or(0));
            let argument = arguments::of_argument(self.definition, key);
            let note = format!("arraybridge: {argument}: in the tile {place}");
            let _ = add_note(self.py, &error, &note);
            error
        };
        let cut = |index| {
            let cut = self.cut(slots, &grids, tiles, index);
            cut.map_err(|error| Error::Python(named(index, PyErr::from(error))))
        };
        let mut take = |index, result: PyResult<Bound<'py, PyAny>>| -> PyResult<()> {
            let tile = lead.tile(index);
            let taken =
                result.and_then(|result| Ok(assembly.add(result, &tile).map_err(about_result)?));
            taken.map_err(|error| named(index, error))?;
            progress.step_bytes(1, bytes.after(&tile), bytes.total)
        };
        let in_threads = tiles.workers > 1 && lead.count() > 1;
        if in_threads && self.is_on_host(slots) && !self.is_watched(slots)? {
            let is_read = slots.iter().any(|slot| slot.lazy().is_some());
            let ahead = if is_read || self.sink.is_some() { 1 } else { workers::AHEAD };
            let mut tiles_cut = (0..lead.count()).map(cut);
            workers::run(self, (tiles.workers, ahead), &mut tiles_cut, &mut take)?;
        } else {
            for index in 0..lead.count() {
                // A function without Python frames does not look for an interrupt.
                self.py.check_signals()?;
                take(index, self.recover(&cut(index)?, ResultScope::Slice))?;
            }
        }
        Ok(assembly.finish(self.py, tiles.copies()).map_err(about_result)?)
    }

    /// Refuses a function that is declared to write to an array of whose tiles it gets copies.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] with the argument.
    fn check_writes(&self, slots: &ArgumentSlots<'py>, tiles: &Tiles) -> Result<()> {
        let writes = self.definition.options.writes_to();
        let is_written = |slot: &ArgumentSlot<'py>| slot.is_passed_for(self.definition, writes);
        let mut cut = self.cut_slots(slots).filter(|(_, slot)| is_written(slot));
        match cut.next().filter(|_| tiles.copies()) {
            None => Ok(()),
            Some((_, slot)) => Err(Error::Value(format!(
                "{}: writes= declares that the function writes to it, but its tiles overlap or are padded, so each \
                 is a copy, and what is written to it would be lost; leave halo and pad away, or return the array",
                arguments::of_argument(self.definition, &slot.key)
            ))),
        }
    }

    /// Returns whether the call uses host memory only. An accelerator works on one tile after the
    /// other, and each thread would have streams of its own, which do not wait for those of the
    /// caller.
    fn is_on_host(&self, slots: &ArgumentSlots<'py>) -> bool {
        let options = &self.definition.options;
        let is_host = |device: Option<Device>| !matches!(device, Some(Device::Accelerator(_)));
        let call = attempt(self.py, scope::call_device(slots, options));
        call.is_some_and(is_host)
            && slots.iter().all(|slot| !scope::is_on_accelerator(self.py, slot))
    }

    /// Returns whether a trace, another transformation or a gradient tape may watch what this
    /// thread does. It would not see other threads.
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
    fn grids(&self, slots: &ArgumentSlots<'py>, tiling: &Tiling) -> Result<SmallVec<[Grid; 4]>> {
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
            let axes = tiling.lengths.len();
            let grid = Grid::new(tiling, &shape).ok_or_else(|| {
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

    /// The arrays of the call as they can be cut. Those that are read keep what their tiles share.
    fn banded(&self, slots: &ArgumentSlots<'py>, grids: &[Grid]) -> Result<ArgumentSlots<'py>> {
        let mut banded = slots.clone();
        for ((at, slot), grid) in self.cut_slots(slots).zip(grids) {
            banded[at] = match slot.lazy() {
                Some(lazy) => slot.read_by(lazy::banded(lazy, grid.cuts())?),
                None => {
                    let extents = grid.extents();
                    let spans = grid.tile(0);
                    let cut =
                        spans.iter().zip(extents).filter(|(span, extent)| span.len() != *extent);
                    slot.undivided(cut.map(|(span, _)| span.axis))?
                }
            };
        }
        Ok(banded)
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
            let tile = tile_of(slot, &grid.tile(index), tiles)?;
            cut[at] = slot
                .with_part(tile)
                .ok_or_else(|| Error::Value("a tile of an array is not an array".to_owned()))?;
        }
        Ok(cut)
    }
}

/// The elements of a tile with its halo, in memory of their own if tiles overlap.
fn tile_of<'py>(slot: &ArgumentSlot<'py>, tile: &Tile, tiles: &Tiles) -> Result<Bound<'py, PyAny>> {
    let (array, py) = (&slot.value, slot.value.py());
    let axes = shape::ndim(array).unwrap_or(0);
    let part = match slot.lazy() {
        Some(lazy) => {
            let index = PyTuple::new(py, index_of(py, axes, tile, |span| span.read.clone())?)?;
            lazy::read(lazy, index.as_any())?
        }
        None => {
            let ranges: SmallVec<[_; 4]> =
                tile.iter().map(|span| (span.axis, span.read.clone())).collect();
            slices::region(array, &ranges)?
        }
    };
    if let Some(mode) = &tiles.pad {
        let mut widths = vec![(0, 0); axes];
        tile.iter().for_each(|span| widths[span.axis] = span.added);
        if widths.iter().any(|width| *width != (0, 0)) {
            return lazy::padded(&part, widths, mode);
        }
    }
    match detect::class_of(&part) {
        Some(class) if tiles.copies() && !class.framework.immutable && slot.lazy().is_none() => {
            let request = Request { copy: Some(true), ..Request::default() };
            convert::convert_to(&part, class.framework, &request)
        }
        _ => Ok(part),
    }
}

/// The place of a tile among all axes, as `[0:512, :]`.
fn place(tile: &Tile, axes: usize) -> String {
    let text = |axis| match tile.iter().find(|span| span.axis == axis) {
        Some(Span { kept, .. }) => format!("{}:{}", kept.start, kept.end),
        None => ":".to_owned(),
    };
    format!("[{}]", (0..axes).map(text).collect::<Vec<_>>().join(", "))
}

/// How many bytes of the first array are done.
struct BytesDone {
    total: usize,
    /// The bytes of one position along the axes that are cut.
    of_position: usize,
    done: Cell<usize>,
}

impl BytesDone {
    fn of(lead: &ArgumentSlot<'_>, grid: &Grid) -> Result<BytesDone> {
        let shape = shape::of(&lead.value).unwrap_or_default();
        let size = loaded::load(lead.value.py(), lead.class.framework)?.dtype(&lead.value);
        let size = size.map_or(0, |dtype| dtype.size());
        let total = contiguous_bytes(&shape, size).unwrap_or(0);
        let positions: usize = grid.extents().iter().product();
        Ok(BytesDone { total, of_position: total / positions.max(1), done: Cell::new(0) })
    }

    /// The bytes that are done after a tile.
    fn after(&self, tile: &Tile) -> usize {
        let positions: usize = tile.iter().map(|span| span.kept.len()).product();
        let done = self.done.get() + self.of_position * positions;
        self.done.set(done);
        done
    }
}
