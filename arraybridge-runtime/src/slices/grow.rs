//! An array that is filled while its parts come, so that the parts are not kept.

use std::slice;

use pyo3::prelude::*;

use super::fill::fill_part;
use super::join::{Along, Join, allocate};
use crate::convert::{self, Opened, trace};
use crate::framework::detect::{self, Role};
use crate::framework::device::{self, Device, Placement};
use crate::framework::endpoints::Endpoints;
use crate::framework::loaded;
use crate::interpreter::error::{Error, Result};
use crate::memory::source::SharedSource;
use crate::memory::view::Dims;

/// A concatenation, in host memory, of the parts that have come so far.
pub struct Growing<'py> {
    join: Join<'py, 'py>,
    device: Device,
    joined: Opened,
    axis: usize,
    /// The length along the axis of what is there.
    filled: usize,
}

impl<'py> Growing<'py> {
    /// Room for parts like the first one, which is not copied yet. Along the axis, they are `extent` long
    /// together. `None` if they have to be kept: they are joined by their framework, or there is no room
    /// for both them and the whole.
    ///
    /// # Errors
    ///
    /// [`Error::Conversion`] when the framework cannot have the whole.
    pub fn new(
        first: &Bound<'py, PyAny>,
        axis: usize,
        extent: usize,
    ) -> Result<Option<Growing<'py>>> {
        let py = first.py();
        let Some(class) = detect::class_of(first) else { return Ok(None) };
        let join = Join::new(first, class.framework, Placement::Auto, Along::Axis(axis))?;
        let Some(opened) = open(&join, first)? else { return Ok(None) };
        let view = opened.source.view();
        if axis >= view.ndim() {
            return Ok(None);
        }
        let own = loaded::load(py, class.framework, Endpoints::of(class.framework))?;
        let device = join.device(device::device_of(py, own, first)?)?;
        let mut shape = Dims::from_slice(view.shape());
        shape[axis] = extent;
        // SAFETY: `array` gives out only what was filled.
        let Ok(source) = (unsafe { allocate(shape, view.dtype()) }) else { return Ok(None) };
        let joined = Opened { source, private: true };
        join.admit(&joined)?;
        Ok(Some(Growing { join, device, joined, axis, filled: 0 }))
    }

    /// Copies a part to its place; false if it is not like the first one, or there is no room.
    ///
    /// # Errors
    ///
    /// What the framework raises when its array is read.
    pub fn push(&mut self, part: &Bound<'py, PyAny>) -> Result<bool> {
        let is_like = detect::class_of(part)
            .is_some_and(|class| class.framework.name == self.join.loaded.framework.name);
        if !is_like {
            return Ok(false);
        }
        let Some(opened) = open(&self.join, part)? else { return Ok(false) };
        let (view, whole) = (opened.source.view(), self.joined.source.view());
        if view.dtype() != whole.dtype() || view.ndim() != whole.ndim() {
            return Ok(false);
        }
        let length = view.shape()[self.axis];
        let others_fit = (0..view.ndim())
            .all(|axis| axis == self.axis || view.shape()[axis] == whole.shape()[axis]);
        if !others_fit || self.filled + length > whole.shape()[self.axis] {
            return Ok(false);
        }
        let (py, at) = (self.join.py, self.filled);
        fill_part(py, &mut self.joined.source, &opened.source, self.axis, at)
            .map_err(|error| Error::Value(error.to_string()))?;
        self.filled += length;
        Ok(true)
    }

    /// The length along the axis of the parts that are there.
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// The array of the parts that are there, which may not be all.
    ///
    /// # Errors
    ///
    /// As [`convert::make_array`].
    pub fn array(self) -> Result<Bound<'py, PyAny>> {
        let Growing { join, device, mut joined, axis, filled } = self;
        if filled < joined.source.view().shape()[axis] {
            let source = SharedSource::from(joined.source).part(axis, 0, filled);
            joined = Opened { source, private: false };
        }
        let Join { py, endpoints, loaded, .. } = join;
        let start = trace::start();
        let result = convert::make_array(py, endpoints, loaded, joined, device)?;
        if let Some(start) = start {
            trace::push(py, join.record(&result), start);
        }
        Ok(result)
    }
}

/// The host memory of a part; `None` if it has to be joined by its framework, or has none that can be read.
fn open<'py>(join: &Join<'_, 'py>, part: &Bound<'py, PyAny>) -> Result<Option<Opened>> {
    let is_array = detect::class_of(part).is_some_and(|class| matches!(class.role, Role::Array));
    if !is_array || join.needs_operation(slice::from_ref(part))? {
        return Ok(None);
    }
    match convert::open_host(part) {
        Err(Error::Conversion(_)) => Ok(None),
        opened => opened.map(Some),
    }
}
