//! Host memory on its way into the target: copied into a buffer of ours, or handed over as it is.

use pyo3::prelude::*;

use super::errors;
use super::numpy::wrap;
use super::plan::Importer;
use crate::dlpack::producer::Producer;
use crate::framework::loaded::Loaded;
use crate::framework::spec::{DType, Handover, Import};
use crate::interpreter::error::Result;
use arraybridge_tensor::dlpack::managed;
use arraybridge_tensor::memory::source::Outgoing;

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
            let capsule = managed::legacy(memory).into_pyobject(target.py())?;
            Ok(op.call(target, [&capsule, &target.import_host()?])?)
        }
        _ => import_publicly(target, import, memory),
    }
}

/// The import by the framework's public call.
pub(super) fn import_publicly<'py>(
    target: Loaded<'py>,
    import: &Import,
    memory: Outgoing<'_>,
) -> Result<Bound<'py, PyAny>> {
    let py = target.py();
    let dtype = dtype_for(target, import, Some(memory.view().dtype()));
    let data = match import.handover {
        Handover::Capsule => managed::legacy(memory).into_pyobject(py)?,
        Handover::Array => wrap(py, memory)?,
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
