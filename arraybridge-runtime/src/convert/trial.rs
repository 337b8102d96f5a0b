//! The trial of what a table says of its framework.
//!
//! Before the first conversion by a way in (an import of a layout, or `from_numpy`) and dtype, a small array
//! goes the same way. What comes out is read again and compared with what the table says: the class, the
//! dtype, the shape, the values, and whether the memory is shared. A table that is wrong is an error, at
//! this and at every later conversion that would rely on it.

use pyo3::prelude::*;

use super::plan::{Importer, Step, Steps};
use super::slot::Opened;
use super::source::open_host;
use super::trials::{Lie, Model, from_numpy, sample, wrong_table};
use super::{errors, import};
use crate::framework::detect;
use crate::framework::device::Device;
use crate::framework::loaded::Loaded;
use crate::framework::oom;
use crate::framework::shape;
use crate::framework::spec::{DType, Import, Strides};
use crate::framework::tried::Way;
use crate::interpreter::error::{Error, Failure, Result, attempt};
use crate::memory::cast;
use arraybridge_host::buffer::ALIGNMENT;
use arraybridge_tensor::memory::source::{Outgoing, Source};

/// A framework that is about to take host memory.
pub(super) struct Trial<'py> {
    pub target: Loaded<'py>,
    pub importer: Importer,
    pub device: Device,
    /// The dtype of the elements that arrive.
    pub dtype: DType,
}

impl<'py> Trial<'py> {
    /// Tries out the way in that some steps take for memory of a layout, unless that was done before. Returns
    /// whether nothing is left to try.
    ///
    /// # Errors
    ///
    /// [`Failure::Table`](crate::interpreter::error::Failure::Table) if the framework does not do what its
    /// table says.
    #[inline]
    pub fn of_steps(&self, steps: Steps, layout: Strides) -> Result<bool> {
        let way = match steps {
            // The array is ours, struct and all.
            _ if matches!(self.importer, Importer::NumpyArray) => return Ok(true),
            [Step::Import, ..] => self.import_of(layout),
            [Step::Gather, Step::Import, ..] | [Step::Open, Step::Gather, Step::Import] => {
                self.import_of(Strides::Contiguous)
            }
            // What arrived on a device is not read again, since that would wait for the device.
            [Step::FromNumpy] | [Step::Gather, Step::FromNumpy] if self.device == Device::Host => {
                Way::FromNumpy
            }
            _ => return Ok(true),
        };
        match self.target.tried.has(way, self.dtype) {
            true => Ok(true),
            false => self.run(way),
        }
    }

    fn import_of(&self, layout: Strides) -> Way {
        match self.importer {
            Importer::ExchangeTable | Importer::Private(_) => Way::Fast(layout),
            _ => Way::Public(layout),
        }
    }

    #[cold]
    fn run(&self, way: Way) -> Result<bool> {
        // Where the host has several devices, the table speaks of the first one.
        let found = match self.device == Device::Host && self.target.has_several_hosts()? {
            true => self.target.on_host(0, || self.find(way)),
            false => self.find(way),
        };
        match found {
            Ok(Some(lie)) => Err(wrong_table(self.target.framework, lie)),
            Ok(None) => {
                self.target.tried.add(way, self.dtype);
                Ok(true)
            }
            Err(error) if is_table(&error) => Err(error),
            Err(error) => self.refused(way, error),
        }
    }

    /// The framework refused a small array. If it takes one of another dtype, the table is wrong. If it refuses the
    /// conversion as well, that says why.
    fn refused(&self, way: Way, error: Error) -> Result<bool> {
        let (py, framework) = (self.target.py(), self.target.framework);
        let plain = Trial { dtype: framework.plain_dtype(), ..*self };
        let error = PyErr::from(error);
        if framework.is_tested
            || plain.dtype == self.dtype
            || oom::passes_through(py, &error)
            || attempt(py, plain.find(way)).is_none()
        {
            attempt(py, Err::<(), _>(error));
            return Ok(false);
        }
        Err(wrong_table(framework, Lie::refused_dtype(py, self.dtype, error)))
    }

    fn find(&self, way: Way) -> Result<Option<Lie>> {
        match way {
            Way::Public(layout) | Way::Fast(layout) => self.import(layout),
            _ => self.upload(),
        }
    }

    /// Why the framework refused an array of some shape, made by `make` of host memory. `error` is what it raised.
    #[cold]
    pub fn blame(
        &self,
        shape: &[usize],
        make: impl Fn(Source) -> Result<Bound<'py, PyAny>>,
        error: Error,
    ) -> Error {
        let Error::Python(error) = error else { return error };
        let (py, framework) = (self.target.py(), self.target.framework);
        if framework.is_tested || oom::passes_through(py, &error) {
            return errors::import_failed(self.target, error);
        }
        let takes = |shape: &[usize]| {
            let bytes = vec![0; shape.iter().product::<usize>() * self.dtype.size()];
            let made =
                Source::from_bytes(&bytes, self.dtype, shape).map_err(Error::from).and_then(&make);
            attempt(py, made).is_some()
        };
        let ndim = shape.len();
        let usual = ndim.min(2).clamp(framework.ndim.0, framework.ndim.1);
        // A length of one, or an axis that is longer than the others, in small.
        let small: Vec<_> = shape.iter().map(|length| 2.min(*length)).collect();
        let lie = if !shape.contains(&0) && ndim <= 8 && !takes(&small) && takes(&vec![2; ndim]) {
            Lie::refused_shape(py, shape, error)
        } else if !takes(&vec![1; usual]) {
            return errors::import_failed(self.target, error);
        } else if !takes(&vec![1; ndim]) {
            Lie::refused_ndim(py, ndim, error)
        } else if shape.contains(&0) {
            Lie::refused_empty(py, error)
        } else {
            return errors::import_failed(self.target, error);
        };
        wrong_table(framework, lie)
    }

    fn import(&self, layout: Strides) -> Result<Option<Lie>> {
        let Some(import) = &self.target.framework.import else { return Ok(None) };
        let claimed = import.align.max(self.dtype.size());
        let found = self.import_at(import, layout, claimed % ALIGNMENT)?;
        if found.is_none() || claimed.is_multiple_of(ALIGNMENT) {
            return Ok(found);
        }
        // Aligned as well as can be, does the framework do what the table says?
        let better = self.import_at(import, layout, 0)?.is_none();
        Ok(if better { Some(Lie::alignment(claimed)) } else { found })
    }

    /// Imports a small array.
    fn import_at(&self, import: &Import, layout: Strides, offset: usize) -> Result<Option<Lie>> {
        let Some((source, model)) = self.sample(layout, offset)? else { return Ok(None) };
        let Trial { target, importer, .. } = *self;
        let take = |memory: Outgoing<'_>| import::import(target, importer, memory);
        let made = source.hand_over(take)?;
        let found = self.difference(&model, &made, layout)?;
        let Comparison::Same(opened) = found else { return Ok(found.lie()) };
        let shares = match (opened.private, layout) {
            (true, Strides::Contiguous) if !import.shares => Some(self.follows(&model, &made)?),
            (private, _) => (!private).then(|| opened.source.view().data() == model.data),
        };
        let is_aligned = import.align <= ALIGNMENT;
        Ok(match (shares, import.shares, layout) {
            (Some(false), true, Strides::Contiguous) if is_aligned => Some(Lie::copies()),
            (Some(false), true, layout) if is_aligned => Some(Lie::strides(layout, "copied it")),
            (Some(true), false, _) => Some(Lie::shares()),
            _ => self.changes(&model, &made, &opened)?.then(Lie::changes),
        })
    }

    fn sample(&self, layout: Strides, offset: usize) -> Result<Option<(Source, Model)>> {
        sample(self.target, self.dtype, layout, offset)
    }

    fn upload(&self) -> Result<Option<Lie>> {
        let Some((source, model)) = self.sample(Strides::Contiguous, 0)? else { return Ok(None) };
        let made = from_numpy(self.target, source, self.device)?;
        let found = self.difference(&model, &made, Strides::Contiguous)?;
        let Comparison::Same(opened) = found else {
            let by_to_numpy = self.target.framework.export.is_none();
            let has_shape = || shape::of(&made).is_some_and(|shape| shape == model.shape);
            return Ok(found.lie().map(|lie| lie.of_from_numpy(by_to_numpy, has_shape())));
        };
        let shares = match opened.private {
            true => self.follows(&model, &made)?,
            false => opened.source.view().data() == model.data,
        };
        Ok(shares.then(Lie::from_numpy_shares))
    }

    /// Returns whether an array changes with the contiguous sample that it was made of. That tells of the memory of an
    /// array that is read by a copy.
    fn follows(&self, model: &Model, made: &Bound<'py, PyAny>) -> Result<bool> {
        model.clear();
        let again = attempt(self.target.py(), open_host(made));
        again.map_or(Ok(false), |again| {
            Ok(cast::bytes_of(self.target.py(), &again.source)? != model.bytes)
        })
    }

    /// Compares what came with what went.
    fn difference(
        &self,
        model: &Model,
        made: &Bound<'py, PyAny>,
        layout: Strides,
    ) -> Result<Comparison> {
        if !detect::is_of(made, self.target.framework) {
            return Ok(Comparison::Different(Lie::class(made)));
        }
        if let Some(lie) = wrong_dtype(self.target, made, self.dtype) {
            return Ok(Comparison::Different(lie));
        }
        let opened = match open_host(made) {
            Err(error) if is_table(&error) => return Err(error),
            opened => opened,
        };
        let Some(opened) = attempt(self.target.py(), opened) else {
            return Ok(Comparison::Unreadable);
        };
        let (shape, bytes) =
            (opened.source.view().shape(), cast::bytes_of(self.target.py(), &opened.source)?);
        if shape != model.shape.as_slice() {
            return Ok(Comparison::Different(Lie::shape("import.op", &model.shape, shape)));
        }
        Ok(match layout {
            _ if bytes == model.bytes => Comparison::Same(opened),
            Strides::Contiguous => Comparison::Different(Lie::values(self.dtype)),
            layout => Comparison::Different(Lie::strides(layout, "read it in another order")),
        })
    }

    /// Returns whether the memory of an array that never changes can be written to.
    fn changes(&self, model: &Model, made: &Bound<'_, PyAny>, opened: &Opened) -> Result<bool> {
        if !self.target.framework.immutable || opened.private {
            return Ok(false);
        }
        let write = || made.set_item(0, made.get_item(1)?);
        let written = attempt(self.target.py(), write()).is_some();
        // An assignment may also give the array other memory.
        Ok(written && cast::bytes_of(self.target.py(), &opened.source)? != model.bytes)
    }
}

/// The result of a comparison.
enum Comparison {
    /// The same array, which was opened to look at it.
    Same(Opened),
    Different(Lie),
    /// The framework did not hand the array out again.
    Unreadable,
}

impl Comparison {
    fn lie(self) -> Option<Lie> {
        match self {
            Comparison::Same(_) | Comparison::Unreadable => None,
            Comparison::Different(lie) => Some(lie),
        }
    }
}

/// Returns whether an error says that a table is wrong.
fn is_table(error: &Error) -> bool {
    matches!(error, Error::Conversion(why) if why.failure == Failure::Table)
}

/// Compares the dtype of an array that a framework made with the one that went there.
///
/// # Errors
///
/// [`Failure::Table`](crate::interpreter::error::Failure::Table) if it is another one.
#[inline]
pub(super) fn check_dtype<'py>(
    target: Loaded<'py>,
    array: &Bound<'py, PyAny>,
    dtype: DType,
) -> Result<()> {
    match wrong_dtype(target, array, dtype) {
        None => Ok(()),
        Some(lie) => Err(wrong_table(target.framework, lie)),
    }
}

/// Compares the shape of an array that a framework made, by `key` of a table that is not of this repository, with that of
/// what went there.
///
/// # Errors
///
/// [`Failure::Table`](crate::interpreter::error::Failure::Table) if it is another one.
#[inline]
pub(super) fn check_shape<'py>(
    target: Loaded<'py>,
    array: &Bound<'py, PyAny>,
    went: &[usize],
    key: &'static str,
) -> Result<()> {
    if target.framework.is_tested {
        return Ok(());
    }
    match shape::of(array) {
        Some(came) if came[..] != *went => {
            Err(wrong_table(target.framework, Lie::shape(key, went, &came)))
        }
        _ => Ok(()),
    }
}

fn wrong_dtype<'py>(target: Loaded<'py>, array: &Bound<'py, PyAny>, dtype: DType) -> Option<Lie> {
    let came = target.dtype(array);
    (came != Some(dtype)).then(|| Lie::dtype(target, array, dtype, came))
}
