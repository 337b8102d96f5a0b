//! The results of the tiles, put together as they come.

use pyo3::prelude::*;
use smallvec::SmallVec;

use crate::declared::ladder::{self, Join};
use crate::policy::StackPolicy;
use crate::slices::{self, Grid, Mosaic, Sink, Span, index_of};
use arraybridge_runtime::convert;
use arraybridge_runtime::framework::detect;
use arraybridge_runtime::framework::shape;
use arraybridge_runtime::interpreter::error::{Error, Result};
use arraybridge_runtime::interpreter::tuples::rebuilt;

/// The results of the tiles, or one element of each.
pub struct Assembly<'a, 'py> {
    how: Option<&'a Join>,
    grid: &'a Grid,
    /// The policy of the first array.
    policy: Option<StackPolicy<'a, 'py>>,
    /// The destination of the first array, if the caller said so.
    sink: Option<Sink<'a, 'py>>,
    state: Assembling<'a, 'py>,
}

enum Assembling<'a, 'py> {
    Empty,
    /// Every result was None.
    Nothing,
    Mosaic(Box<Mosaic<'a, 'py>>),
    /// The kept part of each result is written.
    Written(Sink<'a, 'py>),
    /// The kept part of each result, which the framework joins.
    Kept(Vec<Bound<'py, PyAny>>),
    /// Results that are joined as the declaration says.
    Declared(&'a Join, Vec<Bound<'py, PyAny>>),
    /// The elements of tuples or lists like this one, which has none of the results.
    Elements(Bound<'py, PyAny>, Vec<Assembly<'a, 'py>>),
}

impl<'a, 'py> Assembly<'a, 'py> {
    pub fn new(
        how: Option<&'a Join>,
        grid: &'a Grid,
        policy: Option<StackPolicy<'a, 'py>>,
        sink: Option<Sink<'a, 'py>>,
    ) -> Assembly<'a, 'py> {
        Assembly { how, grid, policy, sink, state: Assembling::Empty }
    }

    /// Takes in the result of the next tile.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] when the result is not like those before, or does not fit its tile.
    pub fn add(&mut self, result: Bound<'py, PyAny>, tile: &[Span]) -> Result<()> {
        if let Assembling::Empty = self.state {
            self.state = self.start(&result, tile)?;
        }
        match &mut self.state {
            Assembling::Elements(like, assemblies) => {
                let elements = ladder::elements(&result, like)?;
                assemblies.iter_mut().zip(elements).try_for_each(|(one, x)| one.add(x, tile))
            }
            Assembling::Declared(_, results) => {
                results.push(result);
                Ok(())
            }
            Assembling::Nothing if result.is_none() => Ok(()),
            Assembling::Mosaic(mosaic) => {
                check_fits(&result, tile)?;
                if mosaic.place(&result, tile, false)? {
                    return Ok(());
                }
                // A mask or a unit that the tiles before do not have has an error of its own.
                convert::open_host(&result)?;
                Err(unlike())
            }
            Assembling::Kept(results) => {
                check_fits(&result, tile)?;
                results.push(trimmed(&result, tile)?);
                Ok(())
            }
            Assembling::Written(sink) => {
                check_fits(&result, tile)?;
                let mut whole = shape::of(&result).unwrap_or_default();
                let extents = tile.iter().zip(self.grid.extents());
                extents.for_each(|(span, extent)| whole[span.axis] = extent);
                let index = index_of(result.py(), whole.len(), tile, |span| span.kept.clone())?;
                sink.write(&trimmed(&result, tile)?, &whole, index)
            }
            Assembling::Nothing | Assembling::Empty => Err(unlike()),
        }
    }

    /// Chooses what becomes of results like the first one.
    fn start(&mut self, first: &Bound<'py, PyAny>, tile: &[Span]) -> Result<Assembling<'a, 'py>> {
        let how = match self.how {
            Some(Join::Concatenate) | None => None,
            Some(how @ Join::Each(_)) => Some(how),
            Some(how) => {
                self.expect_no_sink()?;
                return Ok(Assembling::Declared(how, Vec::new()));
            }
        };
        if let Some((like, joins)) = ladder::parts(first, how)? {
            let elements = ladder::elements(first, first)?;
            // The policy is for the first array.
            let lead = elements.iter().position(|element| detect::class_of(element).is_some());
            if lead.is_none() {
                self.expect_no_sink()?;
            }
            let part = |(index, how)| match lead == Some(index) {
                true => Assembly::new(how, self.grid, self.policy.take(), self.sink.take()),
                false => Assembly::new(how, self.grid, None, None),
            };
            return Ok(Assembling::Elements(
                like,
                joins.into_iter().enumerate().map(part).collect(),
            ));
        }
        if first.is_none() {
            self.expect_no_sink()?;
            return Ok(Assembling::Nothing);
        }
        check_fits(first, tile)?;
        if let Some(sink) = self.sink.take() {
            return Ok(Assembling::Written(sink));
        }
        let extents: SmallVec<[_; 4]> =
            tile.iter().map(|span| span.axis).zip(self.grid.extents()).collect();
        let mosaic = Mosaic::new(first, &extents, self.policy.take())?;
        Ok(mosaic
            .map_or(Assembling::Kept(Vec::new()), |mosaic| Assembling::Mosaic(Box::new(mosaic))))
    }

    /// Refuses results without an array that could be written.
    fn expect_no_sink(&self) -> Result<()> {
        self.sink.as_ref().map_or(Ok(()), |sink| Err(sink.unused()))
    }

    /// The result of the whole, with [`slices::written`] for an array that was written.
    ///
    /// # Errors
    ///
    /// [`Error::Value`] when nothing was returned although tiles overlap; what a join raises.
    pub fn finish(self, py: Python<'py>, overlap: bool) -> Result<Bound<'py, PyAny>> {
        match self.state {
            Assembling::Mosaic(mosaic) => mosaic.finish(None),
            Assembling::Written(_) => Ok(slices::written(py)?),
            Assembling::Kept(results) => joined(results, self.grid),
            Assembling::Declared(how, results) => how.apply(&results, 0),
            Assembling::Elements(like, assemblies) => {
                let finished = assemblies.into_iter().map(|one| one.finish(py, false));
                Ok(rebuilt(&like, finished.collect::<Result<_>>()?)?)
            }
            Assembling::Nothing | Assembling::Empty if overlap => Err(Error::Value(
                "the function returned None for each tile; with a halo or with pad each tile is a copy, so that \
                 what is written to it is lost: return the array"
                    .to_owned(),
            )),
            Assembling::Nothing | Assembling::Empty => Ok(py.None().into_bound(py)),
        }
    }
}

/// Checks that a result is an array with the lengths of its tile along the axes that are cut.
fn check_fits(result: &Bound<'_, PyAny>, tile: &[Span]) -> Result<()> {
    let say = |what: &str| {
        ladder::undeclared_tiles(&format!("{what}, so it cannot be placed in the whole result"))
    };
    if detect::class_of(result).is_none() {
        let class = result.get_type().name()?;
        return Err(say(&format!("the result of a tile is of type {class}")));
    }
    for span in tile {
        let (axis, wanted) = (span.axis, span.len());
        let found = shape::length_along(result, axis);
        if found != Some(wanted) {
            let found = found.map_or("none".to_owned(), |found| found.to_string());
            return Err(say(&format!(
                "the length of a tile along axis {axis} is {wanted} and that of its result is {found}"
            )));
        }
    }
    Ok(())
}

/// The kept part of the result of a tile.
fn trimmed<'py>(result: &Bound<'py, PyAny>, tile: &[Span]) -> Result<Bound<'py, PyAny>> {
    let trims: SmallVec<[_; 4]> = tile.iter().map(|span| (span.axis, span.trim())).collect();
    slices::region(result, &trims)
}

#[cold]
fn unlike() -> Error {
    Error::Value(
        "the result of a tile has another framework, dtype or shape than those of the tiles before"
            .to_owned(),
    )
}

/// The array of what is kept of the results, which are in C order.
fn joined<'py>(mut parts: Vec<Bound<'py, PyAny>>, grid: &Grid) -> Result<Bound<'py, PyAny>> {
    for (axis, count) in grid.counts().rev() {
        let rows = parts.chunks(count).map(|row| slices::concatenate(row, axis));
        parts = rows.collect::<Result<_>>()?;
    }
    parts.pop().ok_or_else(|| Error::Value("there are no tiles".to_owned()))
}
