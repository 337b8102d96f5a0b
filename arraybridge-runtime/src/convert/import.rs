//! Host memory on its way into the target: copied into a buffer of ours, or handed over as it is.

use pyo3::prelude::*;

use super::plan::Importer;
use super::source::{Opened, open_host};
use super::transfer::Transfer;
use super::{errors, source};
use crate::dlpack::producer::Producer;
use crate::dlpack::{capsule, managed};
use crate::framework::device::Device;
use crate::framework::generated::MemoryType;
use crate::framework::loaded::{self, Lacking, Loaded};
use crate::framework::spec::{DType, Framework, Handover, Import, Op};
use crate::host::cast::Scaling;
use crate::interpreter::error::{Failure, Result, attempt};
use crate::memory::cast;
use crate::memory::numpy_array;
use crate::memory::source::{Outgoing, Owner, Source};

/// How a framework takes host memory: by the quickest way that it has.
#[inline]
pub(super) fn importer(target: Loaded<'_>) -> Importer {
    match Importer::of(target.framework) {
        by_table @ (Importer::NumpyArray | Importer::Missing) => by_table,
        _ if target.exchange().is_some() => Importer::ExchangeTable,
        by_table => match (&target.framework.import, by_table) {
            (Some(import), _) if !import.fast.is_empty() => target
                .fast_import(|op| behaves(target, import, op))
                .map_or(by_table, Importer::Private),
            _ => by_table,
        },
    }
}

/// The target's array of the memory that a view describes.
#[inline]
pub(super) fn import<'py>(
    target: Loaded<'py>,
    importer: Importer,
    memory: Outgoing<'_>,
) -> Result<Bound<'py, PyAny>> {
    if let Importer::NumpyArray = importer {
        return wrap(target.py(), memory);
    }
    let Some(import) = &target.framework.import else {
        return Err(errors::no_import(target.framework));
    };
    match (importer, target.exchange()) {
        (Importer::ExchangeTable, Some(exchange)) => {
            Ok(exchange.import(target.py(), managed::versioned(memory))?)
        }
        (Importer::Private(op), _) => {
            let capsule = capsule::give(target.py(), managed::legacy(memory))?;
            Ok(op.call(target, [&capsule, &target.import_host()?])?)
        }
        _ => import_publicly(target, import, memory),
    }
}

/// The import by the framework's public call.
fn import_publicly<'py>(
    target: Loaded<'py>,
    import: &Import,
    memory: Outgoing<'_>,
) -> Result<Bound<'py, PyAny>> {
    let py = target.py();
    let dtype = dtype_for(target, import, Some(memory.view().dtype()));
    let data = match import.handover {
        Handover::Capsule => capsule::give(py, managed::legacy(memory))?,
        Handover::Object => Bound::new(py, Producer::new(memory.into_source()))?.into_any(),
    };
    Ok(import.op.call(target, [&data, &target.import_host()?, &dtype])?)
}

/// The dtype object that the import is handed; `None` if it uses none.
pub(super) fn dtype_for<'py>(
    target: Loaded<'py>,
    import: &Import,
    dtype: Option<DType>,
) -> Bound<'py, PyAny> {
    let py = target.py();
    let used = dtype.filter(|_| import.uses_dtype);
    let object = used.and_then(|dtype| target.dtype_object(dtype));
    object.unwrap_or_else(|| py.None().into_bound(py))
}

/// The target's array of memory that it copies to a device by its table's `from_numpy`.
pub(super) fn from_numpy<'py>(
    target: Loaded<'py>,
    source: Source,
    device: Device,
) -> Result<Bound<'py, PyAny>> {
    let dtype = source.view().dtype();
    let array = wrap_numpy(target.py(), source)?;
    let transfer = Transfer { loaded: target, device };
    Ok(transfer.put(&array, dtype)?)
}

/// Whether a private entry point makes the array that the public one makes: of the same class and
/// repr, at the same address. It is asked once.
fn behaves(target: Loaded<'_>, import: &Import, op: &Op<2>) -> bool {
    let py = target.py();
    let probe = || Source::from_slice(&[0.0_f32, 1.0, 2.0, 3.0, 4.0, 5.0], &[2, 3]);
    let compare = || -> Result<bool> {
        let model = probe()?.hand_over(|memory| import_publicly(target, import, memory))?;
        let source = probe()?;
        let data = source.view().data();
        let capsule = capsule::give(py, source.hand_over(managed::legacy))?;
        let made = op.call(target, [&capsule, &target.import_host()?])?;
        let shares = open_host(&made)?.source.view().data() == data;
        let same_class = made.get_type().is(model.get_type());
        Ok(shares && same_class && made.repr()?.to_str()? == model.repr()?.to_str()?)
    };
    attempt(py, compare().map_err(PyErr::from)).unwrap_or(false)
}

/// What the installed version lacks of the dtypes that the table lists: torch and JAX exchanged no float8 at
/// first. Each is tried once.
pub(super) fn lacking(loaded: Loaded<'_>) -> Lacking {
    let py = loaded.py();
    loaded.lacking(|dtype| attempt(py, exchange(loaded, dtype).map_err(PyErr::from)).is_some())
}

/// Imports an element by DLPack, and exports it again.
fn exchange(loaded: Loaded<'_>, dtype: DType) -> Result<()> {
    let py = loaded.py();
    let (element, _) =
        cast::cast(py, &Source::from_slice(&[1.0_f32], &[1])?, dtype, Scaling::Clamp)?;
    let importer = importer(loaded);
    let array = element.hand_over(|memory| import(loaded, importer, memory))?;
    if let Some(export) = &loaded.framework.export {
        let (none, version) = (py.None().into_bound(py), source::version(py));
        loaded.export(export, [&array, &none, &version])?;
    }
    Ok(())
}

/// A NumPy array of a source's memory.
///
/// # Errors
///
/// [`Failure::Dtype`] when the dtype comes from ml_dtypes and that is not installed.
pub fn wrap_numpy<'py>(py: Python<'py>, source: Source) -> Result<Bound<'py, PyAny>> {
    source.hand_over(|memory| wrap(py, memory))
}

fn wrap<'py>(py: Python<'py>, memory: Outgoing<'_>) -> Result<Bound<'py, PyAny>> {
    let numpy = loaded::load(py, MemoryType::Numpy.framework())?;
    let dtype = memory.view().dtype();
    numpy_array::wrap(py, memory, |dtype| numpy.dtype_object(dtype))?.ok_or_else(|| {
        let reason = format!("NumPy has {dtype} only through `pip install ml_dtypes`");
        numpy.framework.error(Failure::Dtype, "dtype", reason)
    })
}

/// Makes memory on the host that belongs to an array stay where it is, if the array could still free
/// it.
///
/// # Errors
///
/// Why that cannot be.
#[inline(never)]
pub(super) fn pin(py: Python<'_>, source: &'static Framework, owner: &Owner) -> Result<()> {
    let Some(loaded) = loaded::if_loaded(py, source) else { return Ok(()) };
    source::pin(loaded, owner).map_err(|error| errors::not_pinned(loaded, error))
}

/// The same values in memory of our own, contiguous and aligned, perhaps of another element type.
///
/// # Errors
///
/// `MemoryError` when there is no memory for the copy.
pub fn fresh(py: Python<'_>, opened: Opened, to: Option<DType>) -> Result<Opened> {
    let source = match to {
        Some(dtype) => cast::cast(py, &opened.source, dtype, Scaling::Clamp)?.0,
        None => cast::copied(py, &opened.source)?,
    };
    Ok(Opened { source, private: true })
}
