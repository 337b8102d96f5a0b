//! The trial of what a table says of arrays that its framework has: how they are copied and sliced.
//!
//! Before the first copy of a dtype by `copy`, and before the first slices, a small array is copied or sliced the
//! same way. A dtype that the framework refuses to make is not tried.

use std::sync::atomic::Ordering::Relaxed;

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::available::not_imported;
use super::slot::Opened;
use super::source::open_host;
use super::trials::{Lie, STACK, from_numpy, importer, sample, stack, wrong_table};
use super::{errors, import};
use crate::framework::detect;
use crate::framework::device::Device;
use crate::framework::loaded::Loaded;
use crate::framework::oom;
use crate::framework::spec::{DType, Framework, Slicing, Strides};
use crate::framework::tried::Way;
use crate::interpreter::error::{Result, attempt};
use crate::memory::cast;
use arraybridge_tensor::memory::source::{Outgoing, Source};

/// An array of the framework on the host.
fn make<'py>(loaded: Loaded<'py>, source: Source) -> Result<Bound<'py, PyAny>> {
    let dtype = source.view().dtype();
    let Framework { import, from_numpy: op, .. } = loaded.framework;
    let imports = import.is_some() && !not_imported(loaded, dtype).contains(dtype);
    match imports || op.is_none() {
        true => {
            let take = |memory: Outgoing<'_>| import::import(loaded, importer(loaded), memory);
            source.hand_over(take)
        }
        false => from_numpy(loaded, source, Device::Host),
    }
}

/// Tries out `copy` of a table that is not one of the tests', unless that was done before with the dtype.
///
/// # Errors
///
/// [`Failure::Table`](crate::interpreter::error::Failure::Table) if it is no copy.
#[inline]
pub(super) fn try_copy(loaded: Loaded<'_>, dtype: Option<DType>) -> Result<()> {
    match dtype {
        Some(dtype) if !loaded.tried.has(Way::Copy, dtype) => compare_copy(loaded, dtype),
        _ => Ok(()),
    }
}

#[cold]
fn compare_copy(loaded: Loaded<'_>, dtype: DType) -> Result<()> {
    let (py, framework) = (loaded.py(), loaded.framework);
    let compare = || -> Result<Option<Lie>> {
        let Some(copy) = &framework.copy else { return Ok(None) };
        let made = sample(loaded, dtype, Strides::Contiguous, 0)?;
        let Some((source, model)) = made else { return Ok(None) };
        let array = make(loaded, source)?;
        let copied = copy.call(loaded, [&array])?;
        if let Some(ready) = &framework.ready {
            ready.call(loaded, [&copied])?;
        }
        if !detect::is_of(&copied, framework) {
            return Ok(Some(Lie::copy("made no array of its own")));
        }
        let (one, other) = (open_host(&array)?, open_host(&copied)?);
        let shares = match one.private {
            false => one.source.view().data() == other.source.view().data(),
            true => !framework.immutable && follows((&array, &one), (&copied, &other))?,
        };
        let view = other.source.view();
        let is_same = view.dtype() == dtype
            && view.shape() == model.shape.as_slice()
            && cast::bytes_of(py, &other.source)? == model.bytes;
        Ok(match (shares || copied.is(&array), is_same) {
            (true, _) => Some(Lie::copy("shared the memory")),
            (false, false) => Some(Lie::copy("changed the dtype, the shape or the values")),
            (false, true) => None,
        })
    };
    match attempt(py, compare()) {
        Some(Some(lie)) => Err(wrong_table(framework, lie)),
        Some(None) => {
            loaded.tried.add(Way::Copy, dtype);
            Ok(())
        }
        // It has no copy of this dtype. The host makes one.
        None => Ok(()),
    }
}

/// Returns whether a write to an array changes its copy. Where NumPy gets copies of both, their addresses tell nothing.
/// Each comes with what NumPy got of it before.
fn follows(
    (array, opened): (&Bound<'_, PyAny>, &Opened),
    (copied, before_copied): (&Bound<'_, PyAny>, &Opened),
) -> Result<bool> {
    let py = array.py();
    let bytes = |opened: &Opened| cast::bytes_of(py, &opened.source);
    let before = [bytes(opened)?, bytes(before_copied)?];
    let first = PyTuple::new(py, vec![0; opened.source.view().ndim()])?;
    for value in [0, 1] {
        // Where an array takes no values by an index, nothing can be told.
        if attempt(py, array.set_item(&first, value)).is_none() {
            return Ok(false);
        }
        if bytes(&open_host(array)?)? != before[0] {
            return Ok(bytes(&open_host(copied)?)? != before[1]);
        }
    }
    Ok(false)
}

/// Tries out how slices of a framework's arrays are taken, unless that was done before. `take` takes those of an
/// array of three axes.
///
/// # Errors
///
/// [`Failure::Table`](crate::interpreter::error::Failure::Table) if they are no slices.
#[inline]
pub fn try_slices<'py>(
    loaded: Loaded<'py>,
    dtype: Option<DType>,
    take: impl Fn(&Bound<'py, PyAny>) -> Result<Vec<Bound<'py, PyAny>>>,
) -> Result<()> {
    let framework = loaded.framework;
    let Some(dtype) = dtype.filter(|_| !framework.is_tested) else { return Ok(()) };
    if loaded.tried.has(Way::Slices, dtype) {
        return Ok(());
    }
    let plain = framework.plain_dtype();
    let key = |dtype: DType| if dtype == plain { "slices" } else { "no_slices" };
    while loaded.slicing() != Slicing::None
        && let Some(lie) = compare_slices(loaded, dtype, key(dtype), &take)?
    {
        let is_plain = dtype == plain;
        let of_all = match is_plain || framework.no_slices.contains(plain) {
            true => None,
            false => compare_slices(loaded, plain, "slices", &take)?,
        };
        if (!is_plain && of_all.is_none()) || framework.slices.is_some() {
            return Err(wrong_table(framework, of_all.unwrap_or(lie)));
        }
        // The last way needs no slices.
        loaded.failed_slicings.fetch_add(1, Relaxed);
    }
    loaded.tried.add(Way::Slices, dtype);
    Ok(())
}

#[cold]
fn compare_slices<'py>(
    loaded: Loaded<'py>,
    dtype: DType,
    key: &'static str,
    take: impl Fn(&Bound<'py, PyAny>) -> Result<Vec<Bound<'py, PyAny>>>,
) -> Result<Option<Lie>> {
    let (py, framework) = (loaded.py(), loaded.framework);
    let (source, bytes) = stack(py, dtype)?;
    let Some(array) = attempt(py, make(loaded, source)) else {
        return Ok(None);
    };
    let slices = match take(&array).map_err(PyErr::from) {
        Ok(slices) => slices,
        Err(error) if oom::passes_through(py, &error) => return Err(error.into()),
        Err(error) => return Ok(Some(Lie::no_slices(py, key, dtype, error))),
    };
    if slices.len() != STACK[0] {
        let but = format!("made {} slices of {}", slices.len(), STACK[0]);
        return Ok(Some(Lie::slices(key, dtype, but)));
    }
    for (slice, expected) in slices.iter().zip(bytes.chunks(bytes.len() / STACK[0])) {
        if !detect::is_of(slice, framework) {
            let but = format!("made a {}", errors::class_name(slice));
            return Ok(Some(Lie::slices(key, dtype, but)));
        }
        let Some(opened) = attempt(py, open_host(slice)) else { continue };
        let view = opened.source.view();
        if view.dtype() != dtype || view.shape() != &STACK[1..] {
            let but = format!("made {} of the shape {:?}", view.dtype(), view.shape());
            return Ok(Some(Lie::slices(key, dtype, but)));
        }
        if cast::bytes_of(py, &opened.source)? != expected {
            return Ok(Some(Lie::slices(key, dtype, "changed their values")));
        }
    }
    Ok(None)
}
