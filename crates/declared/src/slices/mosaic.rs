//! An array that is filled while the tiles of it come.

use pyo3::prelude::*;

use super::check::Along;
use super::grid::Span;
use super::join::Joiner;
use super::whole::Whole;
use crate::policy::StackPolicy;
use arraybridge_host::cast::Scaling;
use arraybridge_runtime::convert::Opened;
use arraybridge_runtime::framework::detect;
use arraybridge_runtime::framework::device::Placement;
use arraybridge_runtime::framework::spec::DType;
use arraybridge_runtime::interpreter::error::{Error, Result};
use arraybridge_runtime::memory::cast;
use arraybridge_tensor::memory::source::{SharedSource, Source};
use arraybridge_tensor::memory::view::Dims;

/// An array in host memory, with the tiles that have come so far. They are copied to their places, and not
/// kept.
pub struct Mosaic<'a, 'py> {
    whole: Whole<'a, 'py>,
    /// The number of elements that are there.
    filled: usize,
}

impl<'a, 'py> Mosaic<'a, 'py> {
    /// Room for tiles like the first one, which is not copied yet. The extents are those of the whole along
    /// the axes that are cut. `None` if the tiles have to be kept: they are joined by their framework, or
    /// there is no room for both them and the whole.
    ///
    /// # Errors
    ///
    /// [`Error::Conversion`] when the framework cannot have the whole.
    pub fn new(
        first: &Bound<'py, PyAny>,
        extents: &[(usize, usize)],
        policy: Option<StackPolicy<'a, 'py>>,
    ) -> Result<Option<Mosaic<'a, 'py>>> {
        let Some(class) = detect::class_of(first) else { return Ok(None) };
        let Some((axis, _)) = extents.first() else { return Ok(None) };
        let join = Joiner::new(first, class.framework, Placement::Auto, Along::Axis(*axis))?;
        let Some(opened) = join.open(first)? else { return Ok(None) };
        let view = opened.source.view();
        let mut shape = Dims::from_slice(view.shape());
        for (axis, extent) in extents {
            let Some(length) = shape.get_mut(*axis) else { return Ok(None) };
            *length = *extent;
        }
        let count = shape.iter().product::<usize>() / view.len().max(1);
        if join.keeps(first, count) {
            return Ok(None);
        }
        // SAFETY: `finish` asserts that the tiles were written.
        let whole = unsafe { Whole::new(join, first, view.dtype(), shape, policy) };
        match whole {
            Ok(whole) => Ok(Some(Mosaic { whole, filled: 0 })),
            Err(Error::Memory(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Copies what is kept of a tile to its place; false if the tile is not like the first one. If `casts` is true,
    /// it may have another dtype that the policy casts.
    pub fn place(&mut self, tile: &Bound<'py, PyAny>, spans: &[Span], casts: bool) -> Result<bool> {
        if !detect::is_of(tile, self.whole.join.loaded.framework) {
            return Ok(false);
        }
        let Some(opened) = self.whole.join.open(tile)? else { return Ok(false) };
        let (view, whole) = (opened.source.view(), self.whole.opened.source.view());
        let wanted = |axis: usize| match spans.iter().find(|span| span.axis == axis) {
            Some(span) => span.len(),
            None => whole.shape()[axis],
        };
        let has_shape = view.ndim() == whole.ndim()
            && (0..view.ndim()).all(|axis| view.shape()[axis] == wanted(axis));
        let fits = |span: &Span| span.kept.end <= whole.shape()[span.axis];
        let dtype = view.dtype();
        let is_alike =
            || Ok::<_, Error>(dtype == self.whole.from || (casts && self.becomes_alike(dtype)?));
        if !has_shape || !spans.iter().all(fits) || !is_alike()? {
            return Ok(false);
        }
        if dtype != self.whole.dtype() {
            self.whole.from = dtype;
        }
        let mut starts: Dims<usize> = whole.shape().iter().map(|_| 0).collect();
        spans.iter().for_each(|span| starts[span.axis] = span.kept.start);
        self.whole.meet(tile)?;
        let kept = self.kept(opened.source, spans)?;
        self.whole.fill_region(&kept, &starts)?;
        self.filled += kept.view().len();
        Ok(true)
    }

    /// Returns whether tiles of another dtype become like those before by the policy, with the values that they
    /// would have if the whole was cast.
    fn becomes_alike(&self, dtype: DType) -> Result<bool> {
        let (scaling, from) = (self.whole.scaling(), self.whole.from);
        let scales = scaling == Scaling::Clamp || dtype.kind() == from.kind();
        Ok(scales && self.whole.is_made_of(dtype)?)
    }

    /// Returns whether the policy has cast what is there.
    pub fn is_cast(&self) -> bool {
        self.whole.dtype() != self.whole.from
    }

    /// The kept part of a tile, in the dtype of the whole.
    fn kept(&mut self, tile: Source, spans: &[Span]) -> Result<Source> {
        let (py, to, from) = (self.whole.join.loaded.py(), self.whole.dtype(), tile.view().dtype());
        let is_whole = spans.iter().all(Span::is_kept);
        let trims = || spans.iter().map(|span| (span.axis, span.trim()));
        let kept = if is_whole { tile } else { SharedSource::from(tile).region(trims()) };
        if to == from {
            return Ok(kept);
        }
        let (cast, lost) = cast::cast(py, &kept, to, self.whole.scaling())?;
        self.whole.count(&kept, |_| cast.view().clone(), lost)?;
        Ok(cast)
    }

    /// The array, or its elements below a position along an axis. All of them have come.
    ///
    /// # Panics
    ///
    /// Panics if an element has not come: its memory has no value.
    pub fn finish(self, below: Option<(usize, usize)>) -> Result<Bound<'py, PyAny>> {
        let Mosaic { mut whole, filled } = self;
        if let Some((axis, end)) = below {
            let source = SharedSource::from(whole.opened.source).region([(axis, 0..end)]);
            whole.opened = Opened { source, private: false };
        }
        let there = whole.opened.source.view().len();
        assert_eq!(there, filled, "elements of the array have no value yet");
        whole.finish()
    }
}
